#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/feature_blocks.h"
#include "mcnb/bandit/known_users.h"
#include "mcnb/bandit/linear_state.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/base/thread_pool.h"

namespace mcnb {

// The linear states of all users: what the linear policies build on.
//
// Feature blocks must be equal or disjoint. Then M is block diagonal, and each block has a ridge
// state of its own: an arm costs the square of its own features, not of the whole vector. Blocks
// that overlap in part are refused (Error, kInput), as are blocks of more than 16,384 features.
//
// A user's state is made with its first sample, when the user becomes known (known_users.h). All
// weights of a block lie together, so that comparing one user with all others reads memory from
// front to back.
class LinearUsers {
 public:
  LinearUsers(std::size_t users, std::uint32_t inputs, double lambda)
      : known_(users), shape_{.inputs = inputs}, lambda_(lambda) {}

  std::size_t count() const { return known_.user_count(); }
  void add_users(std::size_t count) { known_.add_users(count); }
  const KnownUsers& known() const { return known_; }
  double lambda() const { return lambda_; }
  const FeatureBlocks& blocks() const { return blocks_; }

  // Throw Error (kInput) for what a linear policy cannot take (policy.h, feature_blocks.h).
  void check_round(const Round& round) const;
  void check_arm(const Arm& arm) const;
  void check_feedback(RoundId round, const Arm& arm, float reward) const;
  void check_start(UserId user, const Sample& sample) const;

  // Adds a sample to the user's own state and returns its block. Requires a sample that was
  // checked.
  std::uint32_t add(UserId user, const Features& features, double reward);

  // Nothing (nullptr) for a user without samples.
  const LinearState* find(UserId user) const;
  std::uint64_t sample_count(UserId user) const;

  std::size_t known_count() const { return rows_.size(); }
  std::optional<std::uint32_t> row(UserId user) const { return known_.row(user); }
  UserId user(std::uint32_t row) const { return known_.user(row); }
  const LinearState& state(std::uint32_t row) const { return rows_[row].state; }

  // F(T) of a known user.
  double width(std::uint32_t row) const { return widths_[row]; }
  // The weights of a known user on a block; nothing where it has no samples: all zero.
  std::span<const double> weights(std::uint32_t row, std::uint32_t block) const;

  // ||w_a - w_b||; a block that one of them lacks counts as w = 0.
  double distance(UserId a, UserId b) const;
  // The same of two known users, squared.
  double squared_distance(std::uint32_t row, std::uint32_t other_row) const;
  // The same to every known user, into squares[row], squared: out of one pass over the weights of
  // every block. The bits of `distance`, before the root.
  void squared_distances(const LinearState& from, std::vector<double>& squares) const;

  // x.w and sqrt(x^T M^-1 x) of a state of these blocks, which may be absent (nullptr).
  RidgePrediction predict(const LinearState* state, const Features& features) const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);
  // For states that are saved beside the users' own, such as those of groups.
  LinearState load_state(StateReader& reader) const;

 private:
  struct Row {
    LinearState state;
    std::vector<std::uint32_t> slots;  // in weights_, of every block of the state
  };
  // The weights of all users that have samples on one block, slot by slot.
  struct BlockWeights {
    std::size_t length = 0;
    std::vector<std::uint32_t> rows;
    std::vector<double> values;
  };

  void make_slot(std::uint32_t row, std::size_t place);
  void copy_weights(std::uint32_t row, std::size_t place);
  std::vector<std::uint32_t> block_lengths() const;

  KnownUsers known_;
  NetworkShape shape_;
  double lambda_;
  FeatureBlocks blocks_;
  std::vector<Row> rows_;
  std::vector<double> widths_;         // by row
  std::vector<BlockWeights> weights_;  // by block
};

// Scores every arm of a round by score(arm), on all threads where it is worth it.
template <class ScoreArm>
std::vector<Score> score_arms(const Round& round, ThreadPool& threads, ScoreArm score) {
  constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications
  std::size_t longest = 1;
  for (const Arm& arm : round.arms) {
    longest = std::max(longest, arm.features.values.size());
  }
  std::vector<Score> scores(round.arms.size());
  threads.parallel_for(scores.size(), std::max<std::size_t>(1, kWorthAThread / (longest * longest)),
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t i = begin; i < end; ++i) {
                           scores[i] = score(round.arms[i]);
                         }
                       });
  return scores;
}

}  // namespace mcnb
