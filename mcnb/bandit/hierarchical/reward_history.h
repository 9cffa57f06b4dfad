#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// The rewards of one learner for one arm. Repeats are kept as one entry, which loses nothing.
struct ArmRewards {
  double count = 0.0;  // a fraction once rewards have faded
  double sum = 0.0;

  using Stored = StoredInOrder<&ArmRewards::count, &ArmRewards::sum>;

  double mean() const { return sum / count; }
  // omega: how much the mean counts, given that the arm has a part of its own that repeats share.
  double weight(double memory) const { return count / (1.0 + count * memory); }
};

// Everything that one learner has seen: its arms, bit for bit, and their rewards.
//
// The oldest arms of a long history can be folded into sums, which keep what the arms say about
// coefficients, but not which arms they were.
class RewardHistory {
 public:
  // Sums over folded arms.
  struct Folded {
    Eigen::MatrixXd information;   // sum of omega phi phi^T, of shared features
    Eigen::VectorXd weighted;      // sum of omega mean phi
    double quadratic = 0.0;        // sum of omega mean^2 - count mean^2
    double log_determinant = 0.0;  // sum of ln count - ln omega

    void scale(double factor);  // of all weights
  };

  RewardHistory() = default;
  RewardHistory(const RewardHistory& other);
  RewardHistory& operator=(const RewardHistory& other);
  RewardHistory(RewardHistory&&) noexcept = default;
  RewardHistory& operator=(RewardHistory&&) noexcept = default;
  ~RewardHistory() = default;

  // Distinct arms, without folded ones.
  std::size_t arm_count() const { return rewards_.size(); }
  bool empty() const { return rewards_.empty() && !folded_; }
  // Of all rewards, those of folded arms included.
  double reward_count() const { return reward_count_; }
  double squared_rewards() const { return squared_rewards_; }
  std::span<const ArmRewards> rewards() const { return rewards_; }
  std::span<const float> arm(std::size_t index) const {
    return std::span(values_).subspan(index * inputs(), inputs());
  }
  const Folded* folded() const { return folded_.get(); }

  // The index of an arm with these very numbers, bit for bit.
  std::optional<std::size_t> find(std::span<const float> arm) const;

  // Adds a reward of the arm that `find` found, or of a new arm.
  void add(std::optional<std::size_t> known, std::span<const float> arm, float reward);

  // Multiplies the weight of all rewards so far by a factor below 1, and drops arms whose weight
  // has become negligible.
  void fade(double factor);

  // Periods, for a comparison of rewards with those before them. Begins one, unless it has begun
  // already; it lasts until the next one, until rewards fade, or until arms are folded.
  void begin_period(std::uint64_t period);
  bool has_rewards_of(std::uint64_t period) const { return before_ && before_->period == period; }
  // The history with other weights: of the rewards before the period, and of those since.
  RewardHistory weighed(std::uint64_t period, double before, double since) const;

  // Folds the older half of the arms into sums, under a variance of the memory.
  void fold(const FeatureMap& map, std::span<const float> user, double memory);

  // Writes the arms' shared features, a column each.
  void expand(const FeatureMap& map, std::span<const float> user, Eigen::MatrixXd& out) const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader, const FeatureMap& map);

 private:
  // What there was when a period began.
  struct Before {
    std::uint64_t period = 0;
    std::vector<ArmRewards> rewards;  // of the first arms; later ones are new
    double reward_count = 0.0;
    double squared_rewards = 0.0;
  };

  std::size_t inputs() const { return rewards_.empty() ? 0 : values_.size() / rewards_.size(); }
  void erase_first(std::size_t count);

  std::vector<float> values_;  // of the arms, one after the other
  std::vector<ArmRewards> rewards_;
  std::vector<std::uint32_t> hashes_;  // of the arms' numbers
  double reward_count_ = 0.0;
  double squared_rewards_ = 0.0;
  std::unique_ptr<Folded> folded_;
  std::unique_ptr<Before> before_;
};

// Whether a learner with this history is in dual form (own_learner.h): it has fewer arms than own
// features.
inline bool is_dual(const FeatureMap& map, const RewardHistory& history) {
  return history.arm_count() < map.own_size() && history.folded() == nullptr;
}

}  // namespace mcnb
