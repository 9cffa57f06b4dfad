#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/learning_world.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/model/model_options.h"

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
