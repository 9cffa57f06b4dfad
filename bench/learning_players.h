#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/learning_world.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/model/model.h"

namespace mcnb::bench {

// Somebody who decides. Everybody explores with the service's epsilon, and learns the service's
// default reward for a decision whose reward has not come in the waiting time.
class LearningPlayer {
 public:
  virtual ~LearningPlayer() = default;
  // Decides `round`, decision `number`, and returns the index of the action.
  virtual std::size_t choose(std::uint64_t number, const LearningRound& round) = 0;
  // The reward of an earlier decision has come.
  virtual void reward(std::uint64_t number, float value) = 0;
};

// The model that the service would make, with a policy. Borrows the threads. Throws Error (kUsage)
// if the policy cannot be made.
ModelOptions learning_model(const PolicySpec& policy, std::uint64_t seed);
std::unique_ptr<LearningPlayer> make_served_player(const ModelOptions& model, ThreadPool& threads);

// The service's model, called in this process and without a log, with challengers named "0", "1"
// and so on. Borrows the threads.
class ServedPlayer : public LearningPlayer {
 public:
  ServedPlayer(const ModelOptions& model, ThreadPool& threads,
               std::span<const ChallengerOptions> challengers = {});

  std::size_t choose(std::uint64_t number, const LearningRound& round) override;
  void reward(std::uint64_t number, float value) override;

  // The expected reward of what a policy preferred, by decision: first the model's own policy, then
  // each challenger.
  const std::vector<std::vector<double>>& preferred() const { return preferred_; }
  EstimateReport estimates() const { return model_.estimates(); }

 private:
  void apply(const Event& event) { model_.apply(event, ++position_); }
  void tend_fits();

  Model model_;
  std::uint64_t position_ = 0;
  std::uint64_t last_ = 0;
  std::vector<std::vector<double>> preferred_;
};

// Whoever knows all expected rewards.
std::unique_ptr<LearningPlayer> make_ceiling_player(const ModelOptions& model);
std::unique_ptr<LearningPlayer> make_random_player(const ModelOptions& model);
// Plain Bayesian linear regression with an upper confidence bound: one model for each user, or one
// for all.
std::unique_ptr<LearningPlayer> make_linear_player(const ModelOptions& model, bool per_user);

// The expected reward of what a player chose in each of the decisions of one scenario.
std::vector<double> play_learning(const LearningScenario& scenario, std::uint64_t seed,
                                  std::uint64_t rounds, const ModelOptions& model,
                                  LearningPlayer& player);

}  // namespace mcnb::bench
