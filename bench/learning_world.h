#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/serve/http/request_json.h"

namespace mcnb::bench {

// What happens in one scenario of `mcnb bench learning`. Users belong to hidden groups; a group has
// a taste for every action. Times are numbers of decisions.
struct LearningScenario {
  const char* name;
  const char* title;
  std::uint64_t users = 200;  // at a time
  std::uint64_t groups = 4;
  std::uint64_t actions = 10;   // at a time
  std::uint64_t earliest = 10;  // a reward comes so much later, at the earliest and at the latest
  std::uint64_t latest = 50;
  std::uint64_t batch = 0;        // rewards come at the ends of batches of so many decisions
  double missing = 0.0;           // share of the rewards that never come
  double leaving = 0.0;           // chance that a decision's user is replaced by a new one
  std::uint64_t drift = 0;        // tastes have become others after this time; 0: they stay
  std::uint64_t replacement = 0;  // an action is replaced by a new one this often; 0: never
  bool one_pays = false;          // one action pays, all others hardly do
};

std::span<const LearningScenario> learning_scenarios();

// One decision: what the service is asked, and what only the world knows.
struct LearningRound {
  std::string body;  // of the request
  RankRequest request;
  std::vector<double> expected;  // reward, by action
};

// The decisions of one scenario, in order. Actions and contexts are JSON objects, which the
// service's own reader turns into features.
class LearningWorld {
 public:
  LearningWorld(const LearningScenario& scenario, std::uint64_t seed);

  // Decision `number`; call it for 0, 1, 2 and so on. `model` says how features are read.
  LearningRound round(std::uint64_t number, const ModelOptions& model);

  // The reward of an action in a decision: 0 or 1.
  float reward(std::uint64_t number, std::size_t action, double expected) const;
  // The decision before which the reward comes; nullopt if it never does.
  std::optional<std::uint64_t> reward_comes(std::uint64_t number) const;

 private:
  double taste(std::uint64_t group, std::uint64_t thing, std::uint64_t number) const;
  double expected_reward(std::uint64_t group, std::uint64_t action, std::uint64_t daytime,
                         std::uint64_t number) const;
  std::string body(const std::string& user, std::uint64_t daytime, std::uint64_t number) const;

  const LearningScenario scenario_;
  const std::uint64_t seed_;
  std::vector<std::uint64_t> users_;  // who is here
  std::uint64_t next_user_ = 0;
  std::vector<std::uint64_t> actions_;  // what can be chosen
  std::uint64_t next_action_ = 0;
};

}  // namespace mcnb::bench
