#pragma once

#include <algorithm>
#include <array>
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
  const UserRows& known() const { return known_; }
  double lambda() const { return lambda_; }
  const FeatureBlocks& blocks() const { return blocks_; }

  // Throw Error (kInput) for what a linear policy cannot take (policy.h, feature_blocks.h).
  void check_round(const Round& round) const;
  void check_arm(const Arm& arm) const;
  void check_feedback(RoundId round, const Arm& arm, float reward) const;
  void check_start(UserId user, const Sample& sample) const;

  // Adds a sample to the user's own state; says whose row and which block that was. Requires a
  // sample that was checked.
  struct Place {
    std::uint32_t row;
    std::uint32_t block;
  };
  Place add(UserId user, const Features& features, double reward);

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

  UserRows known_;
  NetworkShape shape_;
  double lambda_;
  FeatureBlocks blocks_;
  std::vector<Row> rows_;
  std::vector<double> widths_;         // by row
  std::vector<BlockWeights> weights_;  // by block
};

// Calls body(begin, end) for ranges of a round's arms, on all threads where it is worth it.
template <class Body>
void for_all_arms(const Round& round, ThreadPool& threads, Body body) {
  constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications
  std::size_t longest = 1;
  for (const Arm& arm : round.arms) {
    longest = std::max(longest, arm.features.values.size());
  }
  threads.parallel_for(round.arms.size(),
                       std::max<std::size_t>(1, kWorthAThread / (longest * longest)), body);
}

// Scores every arm of a round. find_ridge(arm, block) gives the ridge state that speaks about an
// arm, or nothing (nullptr); make_score(arm, prediction) the score. Arms one behind the other with
// one state are predicted together.
template <class FindRidge, class MakeScore>
void score_arms(const Round& round, const LinearUsers& users, ThreadPool& threads,
                FindRidge find_ridge, MakeScore make_score, std::vector<Score>& scores) {
  constexpr std::size_t kTogether = kernels::kPointsTogether;
  const auto find = [&](const Arm& arm) {
    const std::optional<std::uint32_t> block = users.blocks().find(arm.features);
    return block ? find_ridge(arm, *block) : nullptr;
  };
  scores.resize(round.arms.size());
  for_all_arms(round, threads, [&](std::size_t begin, std::size_t end) {
    std::array<const float*, kTogether> points;
    std::array<RidgePrediction, kTogether> said;
    const RidgeState* next = find(round.arms[begin]);
    while (begin < end) {
      const RidgeState* const ridge = next;
      std::size_t count = 0;
      do {
        points[count] = round.arms[begin + count].features.values.data();
        ++count;
        next = begin + count < end ? find(round.arms[begin + count]) : nullptr;
      } while (ridge != nullptr && next == ridge && count < kTogether);
      if (ridge != nullptr) {
        ridge->predict(std::span(points).first(count), std::span(said).first(count));
      } else {
        said[0] = predict(nullptr, round.arms[begin].features.values, users.lambda());
      }
      for (std::size_t i = 0; i < count; ++i) {
        scores[begin + i] = make_score(round.arms[begin + i], said[i]);
      }
      begin += count;
    }
  });
}

}  // namespace mcnb
