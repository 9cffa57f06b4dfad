#pragma once

#include <functional>
#include <span>
#include <vector>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "tests/bandit/policy_cases.h"

// Options and helpers that the tests of M-CNB share.
namespace mcnb::cases {

// Options with which users disagree: in many rounds a cluster holds some of the users, not all.
inline McnbOptions lively() {
  McnbOptions options = mcnb_preset("algorithm");
  options.gamma = 0.1;
  options.eta_1 = 0.2;
  options.eta_2 = 0.2;
  options.exploration = 0.1;
  options.network.width = 16;
  return options;
}

// Changes the options to `scan=sampled`, with four members for an adaptation of two steps.
inline void sample_learners(McnbOptions& options) {
  options.scan = Scan::kSampled;
  options.feedback = mcnb::Feedback::kServed;
  options.meta_samples = 2;
  options.meta_steps = 2;
}

inline McnbOptions with(McnbOptions options, const std::function<void(McnbOptions&)>& change) {
  change(options);
  return options;
}

// The preset `experiments` with fewer training steps.
inline McnbOptions short_replay() {
  return with(mcnb_preset("experiments"), [](McnbOptions& o) {
    o.network.width = 16;
    o.gamma = 0.1;
    o.exploration = 0.1;
    o.meta_samples = 4;
    o.replay.train_often_until = 200;
    o.replay.train_every_later = 30;
    o.user_steps = 40;
    o.theta_steps = 80;
  });
}

// Everything that a policy has learned, except its counters.
inline std::vector<float> knowledge(const Mcnb& policy) {
  const std::span<const float> theta = policy.meta_learner().parameters();
  std::vector<float> all(theta.begin(), theta.end());
  for (std::uint32_t user = 0; user < policy.user_learners().user_count(); ++user) {
    const std::span<const float> own = policy.user_learners().parameters(UserId{user});
    all.insert(all.end(), own.begin(), own.end());
    for (const Sample& sample : policy.histories().samples_of(UserId{user})) {
      const std::span<const float> x = sample.features.values;
      all.insert(all.end(), x.begin(), x.end());
      all.push_back(sample.reward);
    }
  }
  return all;
}

inline void start_all(const World& world, Policy& policy) {
  Session(world, Arrival::kAtOnce).start(policy);
}

}  // namespace mcnb::cases
