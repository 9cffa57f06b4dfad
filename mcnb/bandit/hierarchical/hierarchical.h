#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/hierarchical/hierarchy.h"

namespace mcnb {

enum class HierarchicalFeatures { kAuto, kRaw, kProducts, kTrained };

struct HierarchicalOptions {
  std::optional<double> alpha;  // not set: 0.3 with products of numbers, 0.5 without
  HierarchicalFeatures features = HierarchicalFeatures::kAuto;
  std::optional<bool> user_features;
  std::optional<bool> memory;  // not set: yes, but not with trained features
  bool correlations = true;
  double gamma = 0.1;
  std::uint64_t first_fit = 30;
  double fit_growth = 1.4;
  double body_growth = 1.1;
  std::uint64_t body_units = 256;
  std::uint64_t body_steps = 500;
  std::uint64_t body_passes = 4;
  double pull = 0.05;
  std::uint64_t fit_users = 2000;
  std::optional<double> half_life;
  std::uint64_t history_limit = 2000;
};

// The exact Bayesian form of M-CNB's idea (hierarchy.h): what all users share is the meta-learner,
// how a user differs is the user-learner, and both are inferred exactly instead of by gradient
// steps. An arm is scored by its expected reward and `alpha` standard deviations of it.
//
// Now and then, each time the number of rewards has grown by `fit_growth`, empirical Bayes fits the
// scales of the prior to all rewards so far. With a `half_life`, which fits choose unless it is
// given (half_life.h), that is also when older rewards fade: rank-one updates cannot fade rewards
// without fading the prior. Features may come from a hidden layer (feature_body.h), which is then
// trained in the same fits. The deviations are also multiplied by a calibration: where recent
// errors were larger than predicted, the policy explores more.
class Hierarchical final : public BasicPolicy {
 public:
  // Throws Error (kUsage) if the arms have more numbers than the model can take.
  Hierarchical(const HierarchicalOptions& options, const PolicySetup& setup);
  ~Hierarchical() override;
  Hierarchical(const Hierarchical&) = delete;
  Hierarchical& operator=(const Hierarchical&) = delete;

  void start(UserId user, const Sample& sample) override;
  std::vector<Score> scores(const Round& round) override;
  // Arms are predicted by matrix products, whose last bits can depend on where a row of columns
  // ends.
  std::size_t arms_apart() const override { return 64; }
  // The users whose expected rewards for the arm differ by at most gamma. Only a report: it does
  // not decide anything, and asks every user.
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override;
  void learn(RoundId round, const Arm& arm, float reward) override;
  // Exact: the state is then that of a policy that never saw the user, with the same scales and
  // calibration.
  bool forget(UserId user) override;
  bool fit_is_due() const override;
  bool fit_in_progress() const override { return hierarchy_.fit_in_progress() != nullptr; }
  std::shared_ptr<BackgroundFit> begin_fit() override;
  void finish_fit(std::string_view result) override;
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

 private:
  // The arm's numbers as the model sees them. Features that are part of a longer vector, or too
  // long, are written into `room`, which must live as long as the result is used.
  std::span<const float> numbers_of(const Features& features, std::vector<float>& room) const;
  // Names the learner of an arm: its user and, where arms are blocks, its block.
  std::uint64_t key_of(UserId user, const Features& features) const;
  std::size_t find_learner(std::uint64_t key) const;
  std::span<const float> features_of(UserId user) const;
  double add(UserId user, const Features& features, float reward);
  void check_block(const Features& features, const std::string& what) const;
  FitOptions next_fit_options() const;
  double half_life() const;  // 0: rewards do not fade
  void schedule_fit();
  std::uint64_t next_after(std::uint64_t rewards) const;

  HierarchicalOptions options_;
  bool trained_;  // whether features have a body
  double alpha_;
  NetworkShape shape_;                   // for the checks of features
  std::uint32_t block_length_;           // 0: arms are whole vectors
  std::vector<float> user_features_;     // of the users that the setup knows
  std::vector<float> no_user_features_;  // of all other users: zeros
  Hierarchy hierarchy_;
  std::unordered_map<std::uint64_t, std::uint32_t> learners_;  // by key
  std::vector<std::uint64_t> keys_;                            // by learner
  std::uint64_t rewards_ = 0;                                  // without start data
  bool fits_beside_;
  std::uint64_t next_fit_;         // the number of rewards at which it is due
  std::uint64_t fits_ = 0;         // begun so far
  std::uint64_t fit_began_ = 0;    // the number of rewards when the last fit began
  std::uint64_t faded_until_ = 0;  // the number of rewards at which all older ones were faded
  double squared_errors_ = 0.0;    // recent ones, in units of their predicted variance
  double recent_rewards_ = 0.0;

  std::vector<Hierarchy::Prediction> predictions_;  // memory to be reused
};

}  // namespace mcnb
