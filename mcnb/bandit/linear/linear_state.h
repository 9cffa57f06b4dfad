#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/base/state_file.h"
#include "mcnb/numeric/ridge.h"

namespace mcnb {

// What one user knows in the linear model: a ridge state for every feature block on which it has
// samples. M over all blocks is block diagonal, so nothing is lost. Groups: group_state.h.
class LinearState {
 public:
  explicit LinearState(double lambda) : lambda_(lambda) {}

  // Of all blocks: T in the papers.
  std::uint64_t sample_count() const { return samples_; }
  // Nothing (nullptr) where it has no samples: there M = lambda I and w = 0.
  const RidgeState* find(std::uint32_t block) const;

  // The blocks with samples, ascending, place by place.
  std::size_t block_count() const { return entries_.size(); }
  std::uint32_t block(std::size_t place) const { return entries_[place].block; }
  const RidgeState& ridge(std::size_t place) const { return entries_[place].ridge; }
  // Where the block is, or would be put in.
  std::size_t place_of(std::uint32_t block) const;

  // Requires finite features. Returns the place of the block.
  std::size_t add(std::uint32_t block, std::span<const float> features, double reward);

  // ||w - w'||^2 over all blocks; a block that one of them lacks has w = 0.
  double squared_distance(const LinearState& other) const;
  double squared_norm() const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // `lengths`: of all blocks there are.
  void load(StateReader& reader, std::span<const std::uint32_t> lengths);

 private:
  struct Entry {
    std::uint32_t block;
    RidgeState ridge;
  };

  double lambda_;
  std::uint64_t samples_ = 0;
  std::vector<Entry> entries_;  // by block, ascending
};

// Sums of (a_i - b_i)^2 and of a_i^2, both in the same fixed order.
double squared_distance(std::span<const double> a, std::span<const double> b);
double squared_norm(std::span<const double> a);

// F(T) = sqrt((1 + ln(1 + T)) / (1 + T)): how far weights learned from T samples may be off.
double confidence_width(std::uint64_t samples);

// alpha sqrt(log(1 + t)), what an uncertainty is multiplied by. t is 1 + the rewards learned so
// far, of all users, start data not counted: with immediate feedback the number of the round, from
// 1, so that the bonus is never zero for want of a logarithm.
double exploration_scale(double alpha, std::uint64_t rewards);

// x.w and sqrt(x^T M^-1 x); without a state, M = lambda I and w = 0.
RidgePrediction predict(const RidgeState* ridge, std::span<const float> features, double lambda);

}  // namespace mcnb
