#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/ridge.h"

namespace mcnb {

// A triangular system of equations for unknowns c, by which samples are kept: [R | t] with R c = t,
// R^T R = lambda I + sum of a a^T and R^T t = sum of a b^T over all rows [a | b] that were added.
// Its solution is that of ridge regression. b may have several columns.
class SampleTriangle {
 public:
  SampleTriangle(std::size_t unknowns, std::size_t columns, double lambda);

  // Adds the row [a | b] by Givens rotations, `columns` finite numbers. Leaves in `row` what the
  // rotations make of it: zeros in place of a, and in place of b what does not determine c.
  void add(std::span<double> row);

  // Subtracts multiples of the rows of [R | t] from [a | b] so that a becomes zero and b becomes
  // b - a^T R^-1 t. Returns a^T (R^T R)^-1 a, the sum of the squares of the multiples.
  double eliminate(std::span<double> row) const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  std::size_t unknowns_;
  std::size_t columns_;
  std::vector<double> numbers_;  // the rows of [R | t] without the zeros below the diagonal
};

// The joint ridge regression of coefficients that all learners share and of coefficients that each
// learner has of its own: a reward is z.beta + o.theta_u, with o = [1, x] and z = [1, x] or
// [1, x, all x_i x_j with i <= j]. All coefficients have the ridge lambda.
//
// Predictions equal those of the dense regression over [beta, theta_1, theta_2, ...], but a sample
// costs the squares of the lengths of z and o, however many learners there are. Block elimination
// does it: theta_u occurs only in u's own samples, so these are kept in a triangle that is solved
// for theta_u. What remains of a sample when theta_u is eliminated says something about beta alone,
// and goes to the shared triangle.
class HybridRidge {
 public:
  static constexpr std::size_t kMostShared = 4096;  // coefficients
  static constexpr std::size_t kNoLearner = static_cast<std::size_t>(-1);

  // The length of z.
  static std::size_t shared_count(std::size_t inputs, bool products);

  // `inputs` is the length of x. Requires shared_count(inputs, products) <= kMostShared.
  HybridRidge(std::size_t inputs, bool products, double lambda);

  std::size_t learner_count() const { return own_.size(); }
  // Returns the number of a new learner without samples; they count from 0.
  std::size_t add_learner();
  // Removes a learner and its own coefficients; the last learner gets its number. The shared
  // coefficients keep what they took from it.
  void remove_learner(std::size_t learner);

  // The mean of the reward and the square root of its variance in units of the noise. kNoLearner
  // stands for a learner without samples. Requires `inputs` finite numbers.
  RidgePrediction predict(std::size_t learner, std::span<const float> x) const;
  void learn(std::size_t learner, std::span<const float> x, double reward);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects an object made with the same numbers.
  void load(StateReader& reader, std::size_t learners);

 private:
  std::vector<double> row_of(std::span<const float> x, double reward) const;

  std::size_t inputs_;
  bool products_;
  double lambda_;
  SampleTriangle shared_;
  std::vector<SampleTriangle> own_;  // by learner
};

}  // namespace mcnb
