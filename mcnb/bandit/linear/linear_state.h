#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/base/state_file.h"
#include "mcnb/numeric/ridge.h"

namespace mcnb {

// The linear model of one user: a ridge state for every feature block on which the user has
// samples. M over all blocks is block diagonal, so nothing is lost. Groups: linear_group.h.
class LinearState {
 public:
  explicit LinearState(double lambda) : lambda_(lambda) {}

  // The samples on all blocks: T in the papers.
  std::uint64_t sample_count() const { return samples_; }
  // nullptr for a block without samples: there M = lambda I and w = 0.
  const RidgeState* find(std::uint32_t block) const;

  // The blocks with samples, in ascending order; `position` counts from 0.
  std::size_t block_count() const { return entries_.size(); }
  std::uint32_t block(std::size_t position) const { return entries_[position].block; }
  const RidgeState& ridge(std::size_t position) const { return entries_[position].ridge; }
  // The position of the block, or where it would be inserted.
  std::size_t position_of(std::uint32_t block) const;

  // Adds a sample and returns the position of its block. Requires finite features.
  std::size_t add(std::uint32_t block, std::span<const float> features, double reward);

  // ||w - w'||^2 over all blocks; a block that one of them lacks has w = 0.
  double squared_distance(const LinearState& other) const;
  double squared_norm() const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // `lengths` are those of all blocks.
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

// The sums of (a_i - b_i)^2 and of a_i^2, both in one fixed order.
double squared_distance(std::span<const double> a, std::span<const double> b);
double squared_norm(std::span<const double> a);

// F(T) = sqrt((1 + ln(1 + T)) / (1 + T)): how far weights learned from T samples may be off.
double confidence_width(std::uint64_t samples);

// The factor of an uncertainty, alpha sqrt(log(1 + t)). t is 1 + the number of rewards learned so
// far from all users, without start data; with immediate feedback it is the number of the round,
// counted from 1. So the bonus is never zero in the first round.
double exploration_scale(double alpha, std::uint64_t rewards);

// x.w and sqrt(x^T M^-1 x); nullptr stands for M = lambda I and w = 0.
RidgePrediction predict(const RidgeState* ridge, std::span<const float> features, double lambda);

}  // namespace mcnb
