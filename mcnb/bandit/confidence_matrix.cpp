#include "mcnb/bandit/confidence_matrix.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Values = Eigen::Map<const Eigen::VectorXd>;
using ChangingValues = Eigen::Map<Eigen::VectorXd>;

double dot(const double* a, const double* b, std::size_t count) {
  const auto size = static_cast<Eigen::Index>(count);
  return Values(a, size).dot(Values(b, size));
}

// to += factor * from
void add_scaled(double* to, double factor, const double* from, std::size_t count) {
  const auto size = static_cast<Eigen::Index>(count);
  ChangingValues(to, size) += factor * Values(from, size);
}

// One of the runs of a gradient.
struct Run {
  std::size_t start;
  std::span<const double> values;
};

std::span<const double> all_values(const SparseGradient& gradient) { return gradient.values; }

Run first_run(const SparseGradient& gradient) {
  return {gradient.first_start, all_values(gradient).first(gradient.first_count)};
}

Run rest_run(const SparseGradient& gradient) {
  return {gradient.rest_start, all_values(gradient).subspan(gradient.first_count)};
}

// g_i
double part_at(const SparseGradient& gradient, std::size_t i) {
  if (i >= gradient.rest_start) {
    return gradient.values[gradient.first_count + i - gradient.rest_start];
  }
  const bool met = i >= gradient.first_start && i - gradient.first_start < gradient.first_count;
  return met ? gradient.values[i - gradient.first_start] : 0.0;
}

// row . g, over the first `count` elements of the row.
double row_product(const double* row, const SparseGradient& gradient, std::size_t count) {
  double sum = 0.0;
  for (const Run& run : {first_run(gradient), rest_run(gradient)}) {
    if (count > run.start) {
      sum +=
          dot(row + run.start, run.values.data(), std::min(run.values.size(), count - run.start));
    }
  }
  return sum;
}

// Writes b h^T, row by row of the layer's weights; returns the end of what was written.
double* write_outer_product(std::span<const float> inputs, std::span<const float> signals,
                            double* to) {
  for (const double input : inputs) {
    for (const float signal : signals) {
      *to++ = input * signal;
    }
  }
  return to;
}

}  // namespace

void expand_gradient(const NetworkShape& shape, const GradientFactors& factors,
                     SparseGradient& gradient) {
  const std::size_t width = shape.width;
  const std::span<const float> features = factors.features.values;
  gradient.first_start = factors.features.offset * width;
  gradient.first_count = features.size() * width;
  gradient.rest_start = shape.inputs * width;
  gradient.values.resize(gradient.first_count + shape.parameter_count() - gradient.rest_start);

  const float one = 1.0F;
  std::span<const float> inputs = features;
  double* to = gradient.values.data();
  for (std::uint32_t layer = 1; layer <= shape.depth; ++layer) {
    const std::size_t place = (layer - 1) * shape.padded_width();
    const bool last = layer == shape.depth;
    const std::span<const float> signals =
        last ? std::span(&one, 1) : std::span(factors.signals).subspan(place, width);
    to = write_outer_product(inputs, signals, to);
    if (shape.biases) {
      to = write_outer_product(std::span(&one, 1), signals, to);
    }
    if (!last) {
      inputs = std::span(factors.activations).subspan(place, width);
    }
  }
  check(to == gradient.values.data() + gradient.values.size(), "a gradient has all its parts");
}

ConfidenceMatrix::ConfidenceMatrix(std::size_t parameters, double lambda, Form form)
    : parameters_(parameters), form_(form) {
  check(lambda > 0.0, "lambda is positive");
  if (form == Form::kDiagonal) {
    values_.assign(parameters, lambda);
    return;
  }
  check(parameters <= kMostWhole, "a whole matrix is not too large");
  values_.assign(parameters * (parameters + 1) / 2, 0.0);
  for (std::size_t i = 0; i < parameters; ++i) {
    row(i)[i] = 1.0 / lambda;
  }
}

void ConfidenceMatrix::add(const SparseGradient& gradient) {
  if (form_ == Form::kDiagonal) {
    for (const Run& run : {first_run(gradient), rest_run(gradient)}) {
      const Values values(run.values.data(), static_cast<Eigen::Index>(run.values.size()));
      ChangingValues(values_.data() + run.start, values.size()) += values.cwiseAbs2();
    }
    return;
  }
  // Sherman and Morrison: Z'^-1 = Z^-1 - (Z^-1 g)(Z^-1 g)^T / (1 + g^T Z^-1 g).
  product_.assign(parameters_, 0.0);
  for (std::size_t i = 0; i < parameters_; ++i) {
    product_[i] += row_product(row(i), gradient, i + 1);
    if (const double part = part_at(gradient, i); part != 0.0) {  // the upper half, by symmetry
      add_scaled(product_.data(), part, row(i), i);
    }
  }
  const double square = row_product(product_.data(), gradient, parameters_);
  for (std::size_t i = 0; i < parameters_; ++i) {
    add_scaled(row(i), -product_[i] / (1.0 + square), product_.data(), i + 1);
  }
}

void ConfidenceMatrix::find_squares(std::span<const SparseGradient> gradients,
                                    std::span<double> squares) const {
  std::ranges::fill(squares, 0.0);
  if (form_ == Form::kDiagonal) {
    for (std::size_t a = 0; a < gradients.size(); ++a) {
      for (const Run& run : {first_run(gradients[a]), rest_run(gradients[a])}) {
        const auto size = static_cast<Eigen::Index>(run.values.size());
        const Values values(run.values.data(), size);
        const Values diagonal(values_.data() + run.start, size);
        squares[a] += values.dot(values.cwiseQuotient(diagonal));
      }
    }
    return;
  }
  // Rows outside, gradients inside: a row comes from memory once for all of them. Half of a
  // gradient's parts are zero, those of units that are not active, and cost nothing.
  for (std::size_t i = 0; i < parameters_; ++i) {
    const double* const values = row(i);
    for (std::size_t a = 0; a < gradients.size(); ++a) {
      if (const double part = part_at(gradients[a], i); part != 0.0) {
        squares[a] += part * (2.0 * row_product(values, gradients[a], i) + part * values[i]);
      }
    }
  }
  for (double& square : squares) {
    square = std::max(square, 0.0);
  }
}

void ConfidenceMatrix::save(StateWriter& writer) const { writer.write_all(values_); }

void ConfidenceMatrix::load(StateReader& reader) {
  std::vector<double> values = reader.read_all<double>(values_.size());
  if (values.size() != values_.size() ||
      std::ranges::any_of(values, [](double value) { return !std::isfinite(value); })) {
    reader.fail("a confidence matrix does not fit the network");
  }
  values_ = std::move(values);
}

}  // namespace mcnb
