#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/linear/feature_blocks.h"
#include "mcnb/bandit/linear/linear_state.h"
#include "mcnb/bandit/linear/user_rows.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/base/thread_pool.h"

namespace mcnb {

// The linear states of all users, on which the linear policies build.
//
// Feature blocks must be equal or disjoint. Then M is block diagonal and each block has its own
// ridge state: an arm costs the square of its own features, not of the whole vector. Blocks that
// overlap in part are refused (Error, kInput), as are blocks of more than 16,384 features.
//
// A user's state is made with its first sample, which makes the user known (user_rows.h). All
// weights of a block are stored together, so that comparing one user with all others reads memory
// from front to back.
class LinearUsers {
 public:
  LinearUsers(std::size_t users, std::uint32_t inputs, double lambda)
      : known_(users), shape_{.inputs = inputs}, lambda_(lambda) {}

  std::size_t count() const { return known_.user_count(); }
  void add_users(std::size_t count) { known_.add_users(count); }
  const UserRows& known() const { return known_; }
  double lambda() const { return lambda_; }
  const FeatureBlocks& blocks() const { return blocks_; }

  // Throw Error (kInput) for input that a linear policy cannot take (policy.h, feature_blocks.h).
  void check_round(const Round& round) const;
  void check_arm(const Arm& arm) const;
  void check_feedback(RoundId round, const Arm& arm, float reward) const;
  void check_start(UserId user, const Sample& sample) const;

  // Adds a checked sample to the user's own state; returns the user's row and the sample's block.
  struct Added {
    std::uint32_t row;
    std::uint32_t block;
  };
  Added add(UserId user, const Features& features, double reward);

  // nullptr for a user without samples.
  const LinearState* find(UserId user) const;
  std::uint64_t sample_count(UserId user) const;

  std::size_t known_count() const { return rows_.size(); }
  std::optional<std::uint32_t> row(UserId user) const { return known_.row(user); }
  UserId user(std::uint32_t row) const { return known_.user(row); }
  const LinearState& state(std::uint32_t row) const { return rows_[row].state; }

  // F(T) of a known user.
  double width(std::uint32_t row) const { return widths_[row]; }
  // The weights of a known user on a block; empty, for all zeros, if it has no samples there.
  std::span<const double> weights(std::uint32_t row, std::uint32_t block) const;

  // ||w_a - w_b||; a block that one of them lacks counts as w = 0.
  double distance(UserId a, UserId b) const;
  // ||w_a - w_b||^2 of two known users.
  double squared_distance(std::uint32_t row, std::uint32_t other_row) const;
  // Sets squares[row] to ||w - w_row||^2 for every known user, with the bits of `distance` before
  // its root, in one pass over the weights of every block.
  void squared_distances(const LinearState& from, std::vector<double>& squares) const;

  // x.w and sqrt(x^T M^-1 x) of a state of these blocks, or nullptr.
  RidgePrediction predict(const LinearState* state, const Features& features) const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  struct Row {
    LinearState state;
    std::vector<std::uint32_t> slots;  // by position in the state: the slot in weights_
  };
  // The weights of all users that have samples on one block, slot by slot.
  struct BlockWeights {
    std::size_t length = 0;
    std::vector<std::uint32_t> rows;
    std::vector<double> values;
  };

  void make_slot(std::uint32_t row, std::size_t position);
  void copy_weights(std::uint32_t row, std::size_t position);

  UserRows known_;
  NetworkShape shape_;
  double lambda_;
  FeatureBlocks blocks_;
  std::vector<Row> rows_;
  std::vector<double> widths_;         // by row
  std::vector<BlockWeights> weights_;  // by block
};

}  // namespace mcnb
