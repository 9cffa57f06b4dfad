#include "mcnb/bandit/neural/confidence_matrix.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::size_t kWorthAThread = 1 << 16;  // parameters
constexpr float kOne = 1.0F;

// Calls body(offset, rows, columns) for every part of a gradient that is an outer product:
// parameter offset + i * columns.size() + j has the derivative rows[i] * columns[j]. The last
// layer, which has one output, is one row.
template <class Body>
void for_outer_products(const NetworkShape& shape, const GradientFactors& factors, Body body) {
  std::span<const float> inputs = factors.features.values;
  std::size_t first = factors.features.offset;
  for (std::uint32_t layer = 1; layer < shape.depth; ++layer) {
    const std::size_t start = (layer - 1) * shape.padded_width();
    const auto signals = std::span(factors.signals).subspan(start, shape.width);
    const std::size_t offset = shape.layer_offset(layer);
    body(offset + first * shape.width, inputs, signals);
    if (shape.biases) {
      body(offset + shape.layer_inputs(layer) * shape.width, std::span(&kOne, 1), signals);
    }
    inputs = std::span(factors.activations).subspan(start, shape.width);
    first = 0;
  }
  const std::size_t last = shape.layer_offset(shape.depth);
  body(last, std::span(&kOne, 1), inputs);
  if (shape.biases) {
    body(last + shape.width, std::span(&kOne, 1), std::span(&kOne, 1));
  }
}

struct Squares {
  std::vector<double> rows;
  std::vector<double> columns;
};

// Like for_parts, with the squares of rows and columns, which are written to `room`.
template <class Body>
void for_squared_products(const NetworkShape& shape, const GradientFactors& factors, Squares& room,
                          Body body) {
  const auto square = [](std::span<const float> values, std::vector<double>& squares) {
    squares.assign(values.begin(), values.end());
    for (double& value : squares) {
      value *= value;
    }
  };
  for_outer_products(
      shape, factors,
      [&](std::size_t offset, std::span<const float> inputs, std::span<const float> signals) {
        square(inputs, room.rows);
        square(signals, room.columns);
        body(offset, std::span<const double>(room.rows), std::span<const double>(room.columns));
      });
}

// A gradient with all its entries, in two runs of parameters: the rows of W_1 that belong to the
// features, and all parameters behind W_1.
struct WholeGradient {
  WholeGradient(const NetworkShape& shape, const GradientFactors& factors, double* room,
                std::size_t size)
      : values(room) {
    std::fill(room, room + size, 0.0);
    for_outer_products(
        shape, factors,
        [&](std::size_t offset, std::span<const float> rows, std::span<const float> columns) {
          double* to = room + offset;
          for (const double row : rows) {
            for (const float column : columns) {
              *to++ = row * column;
            }
          }
        });
    const std::size_t first = factors.features.offset * std::size_t{shape.width};
    const std::size_t end = first + factors.features.values.size() * shape.width;
    runs[0] = {first / kernels::kBlock, (end + kernels::kBlock - 1) / kernels::kBlock};
    runs[1] = {shape.inputs * std::size_t{shape.width} / kernels::kBlock, size / kernels::kBlock};
    if (runs[1].first <= runs[0].end) {  // they touch
      runs[0].end = runs[1].end;
      run_count = 1;
    }
  }

  kernels::BlockVector view() const { return {values, {runs, run_count}}; }

  const double* values;
  kernels::BlockRun runs[2];
  std::size_t run_count = 2;
};

}  // namespace

OptionTable<ConfidenceOptions> confidence_option_table() {
  using Options = ConfidenceOptions;
  OptionTable<Options> table;
  table.number("alpha", &Options::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("lambda", &Options::lambda, {1e-6, 1e6}, "Z = lambda I at the start")
      .choice("matrix", &Options::matrix,
              {{"auto", MatrixForm::kAuto},
               {"full", MatrixForm::kFull},
               {"diagonal", MatrixForm::kDiagonal}},
              "how Z is kept; auto: full up to 3,500 parameters")
      .yes_no("nonnegative", &Options::nonnegative, kNonnegativeHelp);
  return table;
}

NetworkUncertainty ConfidenceMatrix::kind_of(const ConfidenceOptions& options,
                                             const NetworkShape& shape) {
  const bool full =
      options.matrix == MatrixForm::kFull ||
      (options.matrix == MatrixForm::kAuto && shape.parameter_count() <= kFullByItself);
  return full ? NetworkUncertainty::kFull : NetworkUncertainty::kDiagonal;
}

ConfidenceMatrix::ConfidenceMatrix(const ConfidenceOptions& options, const NetworkShape& shape)
    : shape_(shape), lambda_(options.lambda) {
  const std::size_t parameters = shape.parameter_count();
  const bool full = kind_of(options, shape) == NetworkUncertainty::kFull;
  if (full && parameters > kMostFull) {
    refuse_option("matrix",
                  fmt::format("auto or diagonal for a network of {} parameters (full: at most {})",
                              parameters, kMostFull),
                  "full");
  }
  if (full) {
    full_.emplace(parameters, options.lambda);
    bound_.emplace(parameters, options.lambda);
  } else {
    diagonal_.assign(parameters, 1.0 / options.lambda);
  }
}

void ConfidenceMatrix::add(ThreadPool& threads, const GradientFactors& gradient) {
  if (full_) {
    AlignedDoubles room(full_->padded_size());
    const WholeGradient whole(shape_, gradient, room.data(), room.size());
    full_->add(threads, whole.view());
    bound_->add({whole.values, shape_.parameter_count()});
    return;
  }
  Squares room;
  for_squared_products(
      shape_, gradient, room,
      [&](std::size_t offset, std::span<const double> rows, std::span<const double> columns) {
        kernels::shrink(rows, columns, diagonal_.data() + offset);
      });
}

double ConfidenceMatrix::largest_square(const GradientFactors& gradient) const {
  const double norm = gradient_norm(shape_, gradient);
  if (!bound_) {
    return norm * norm / lambda_;
  }
  double along = 0.0;
  for_outer_products(
      shape_, gradient,
      [&](std::size_t offset, std::span<const float> rows, std::span<const float> columns) {
        along += kernels::weigh(std::vector<double>(rows.begin(), rows.end()),
                                std::vector<double>(columns.begin(), columns.end()),
                                bound_->sum().data() + offset);
      });
  return bound_->largest_square(norm * norm, along);
}

void ConfidenceMatrix::find_squares(ThreadPool& threads, std::span<const GradientFactors> gradients,
                                    std::span<double> squares) {
  check(gradients.size() == squares.size(), "every gradient has its square");
  if (gradients.empty()) {
    return;
  }
  if (full_) {
    find_full_squares(threads, gradients, squares);
  } else {
    find_diagonal_squares(threads, gradients, squares);
  }
  for (std::size_t i = 0; i < squares.size(); ++i) {
    squares[i] = std::min(squares[i], largest_square(gradients[i]));
  }
}

void ConfidenceMatrix::find_diagonal_squares(ThreadPool& threads,
                                             std::span<const GradientFactors> gradients,
                                             std::span<double> squares) {
  const std::size_t touched = gradients[0].features.values.size() * shape_.width +
                              shape_.parameter_count() - shape_.inputs * shape_.width;
  const auto find = [&](std::size_t i, Squares& room) {
    squares[i] = 0.0;
    for_squared_products(
        shape_, gradients[i], room,
        [&](std::size_t offset, std::span<const double> rows, std::span<const double> columns) {
          squares[i] += kernels::weigh(rows, columns, diagonal_.data() + offset);
        });
  };
  threads.parallel_for(gradients.size(), kWorthAThread / touched + 1,
                       [&](std::size_t begin, std::size_t end) {
                         Squares room;
                         for (std::size_t i = begin; i < end; ++i) {
                           find(i, room);
                         }
                       });
}

void ConfidenceMatrix::find_full_squares(ThreadPool& threads,
                                         std::span<const GradientFactors> gradients,
                                         std::span<double> squares) {
  const std::size_t size = full_->padded_size();
  AlignedDoubles room(gradients.size() * size);
  std::vector<WholeGradient> whole;
  std::vector<kernels::BlockVector> vectors;
  whole.reserve(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    whole.emplace_back(shape_, gradients[i], room.data() + i * size, size);
    vectors.push_back(whole.back().view());
  }
  full_->find_squares(threads, vectors, squares);
}

std::size_t ConfidenceMatrix::memory_bytes() const {
  return full_ ? full_->memory_bytes() + bound_->memory_bytes()
               : diagonal_.capacity() * sizeof diagonal_[0];
}

void ConfidenceMatrix::save(StateWriter& writer) const {
  if (full_) {
    full_->save(writer);
    bound_->save(writer);
  } else {
    writer.write_all(diagonal_);
  }
}

void ConfidenceMatrix::load(StateReader& reader) {
  if (full_) {
    full_->load(reader);
    bound_->load(reader, std::numeric_limits<std::uint64_t>::max());
    return;
  }
  std::vector<double> diagonal = reader.read_all<double>(diagonal_.size());
  if (diagonal.size() != diagonal_.size() || !std::ranges::all_of(diagonal, [](double value) {
        return value > 0.0 && std::isfinite(value);
      })) {
    reader.fail("a confidence matrix does not fit the network");
  }
  diagonal_ = std::move(diagonal);
}

}  // namespace mcnb
