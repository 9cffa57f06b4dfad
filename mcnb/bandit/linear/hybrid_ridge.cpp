#include "mcnb/bandit/linear/hybrid_ridge.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

Eigen::Map<Eigen::VectorXd> as_vector(double* numbers, std::size_t count) {
  return {numbers, static_cast<Eigen::Index>(count)};
}
Eigen::Map<const Eigen::VectorXd> as_vector(const double* numbers, std::size_t count) {
  return {numbers, static_cast<Eigen::Index>(count)};
}

}  // namespace

SampleTriangle::SampleTriangle(std::size_t unknowns, std::size_t columns, double lambda)
    : unknowns_(unknowns),
      columns_(columns),
      numbers_(unknowns * columns - unknowns * (unknowns - 1) / 2) {
  double* diagonal = numbers_.data();
  for (std::size_t i = 0; i < unknowns; ++i) {
    *diagonal = std::sqrt(lambda);
    diagonal += columns - i;
  }
}

// Every rotation mixes a row of [R | t] with the new row so that the new row's next number becomes
// zero. Rotations keep the sums of a a^T and of a b^T.
void SampleTriangle::add(std::span<double> row) {
  double* triangle = numbers_.data();
  for (std::size_t i = 0; i < unknowns_; ++i) {
    const std::size_t length = columns_ - i;
    if (row[i] != 0.0) {
      const double diagonal = std::sqrt(triangle[0] * triangle[0] + row[i] * row[i]);
      const double cosine = triangle[0] / diagonal;
      const double sine = row[i] / diagonal;
      triangle[0] = diagonal;
      row[i] = 0.0;
      for (std::size_t k = 1; k < length; ++k) {
        const double kept = triangle[k];
        triangle[k] = cosine * kept + sine * row[i + k];
        row[i + k] = cosine * row[i + k] - sine * kept;
      }
    }
    triangle += length;
  }
}

double SampleTriangle::eliminate(std::span<double> row) const {
  const double* triangle = numbers_.data();
  double squares = 0.0;
  for (std::size_t i = 0; i < unknowns_; ++i) {
    const std::size_t length = columns_ - i;
    const double multiple = row[i] / triangle[0];
    as_vector(row.data() + i + 1, length - 1) -= multiple * as_vector(triangle + 1, length - 1);
    row[i] = 0.0;
    squares += multiple * multiple;
    triangle += length;
  }
  return squares;
}

std::size_t SampleTriangle::memory_bytes() const {
  return sizeof *this + numbers_.capacity() * sizeof numbers_[0];
}

void SampleTriangle::save(StateWriter& writer) const { writer.write_all(numbers_); }

void SampleTriangle::load(StateReader& reader) {
  std::vector<double> numbers = reader.read_all<double>(numbers_.size());
  if (numbers.size() != numbers_.size() ||
      !std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); })) {
    reader.fail("the triangle of a hybrid model has another size or a number that is not finite");
  }
  const double* triangle = numbers.data();
  for (std::size_t i = 0; i < unknowns_; ++i) {
    if (!(*triangle > 0.0)) {
      reader.fail("the triangle of a hybrid model has a diagonal that is not positive");
    }
    triangle += columns_ - i;
  }
  numbers_ = std::move(numbers);
}

std::size_t HybridRidge::shared_count(std::size_t inputs, bool products) {
  return 1 + inputs + (products ? inputs * (inputs + 1) / 2 : 0);
}

HybridRidge::HybridRidge(std::size_t inputs, bool products, double lambda)
    : inputs_(inputs),
      products_(products),
      lambda_(lambda),
      shared_(shared_count(inputs, products), shared_count(inputs, products) + 1, lambda) {}

std::size_t HybridRidge::add_learner() {
  const std::size_t own = 1 + inputs_;
  own_.emplace_back(own, own + shared_count(inputs_, products_) + 1, lambda_);
  return own_.size() - 1;
}

void HybridRidge::remove_learner(std::size_t learner) {
  check(learner < own_.size(), "a removed learner exists");
  std::swap(own_[learner], own_.back());
  own_.pop_back();
}

// [o | z | reward]
std::vector<double> HybridRidge::row_of(std::span<const float> x, double reward) const {
  check(x.size() == inputs_, "arms have the inputs of the model");
  std::vector<double> row;
  row.reserve(inputs_ + shared_count(inputs_, products_) + 2);
  for (int part = 0; part < 2; ++part) {
    row.push_back(1.0);
    row.insert(row.end(), x.begin(), x.end());
  }
  for (std::size_t i = 0; products_ && i < inputs_; ++i) {
    for (std::size_t j = i; j < inputs_; ++j) {
      row.push_back(static_cast<double>(x[i]) * static_cast<double>(x[j]));
    }
  }
  row.push_back(reward);
  return row;
}

// Elimination turns the reward 0 into minus the mean. The variance has two parts: that of theta_u
// given beta, and that of beta.
RidgePrediction HybridRidge::predict(std::size_t learner, std::span<const float> x) const {
  std::vector<double> row = row_of(x, 0.0);
  const std::size_t own = 1 + inputs_;
  double variance = 0.0;
  if (learner == kNoLearner) {
    variance = as_vector(row.data(), own).squaredNorm() / lambda_;
  } else {
    variance = own_.at(learner).eliminate(row);
  }
  variance += shared_.eliminate(std::span(row).subspan(own));
  return {-row.back(), std::sqrt(variance)};
}

void HybridRidge::learn(std::size_t learner, std::span<const float> x, double reward) {
  std::vector<double> row = row_of(x, reward);
  own_.at(learner).add(row);
  shared_.add(std::span(row).subspan(1 + inputs_));
}

std::size_t HybridRidge::memory_bytes() const {
  // All learners' triangles have one size.
  const std::size_t each = own_.empty() ? 0 : own_.front().memory_bytes();
  return sizeof *this - sizeof shared_ + shared_.memory_bytes() +
         (own_.capacity() - own_.size()) * sizeof own_[0] + own_.size() * each;
}

void HybridRidge::save(StateWriter& writer) const {
  shared_.save(writer);
  for (const SampleTriangle& own : own_) {
    own.save(writer);
  }
}

void HybridRidge::load(StateReader& reader, std::size_t learners) {
  shared_.load(reader);
  own_.clear();
  while (own_.size() < learners) {
    add_learner();
    own_.back().load(reader);
  }
}

}  // namespace mcnb
