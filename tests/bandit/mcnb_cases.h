#pragma once

#include <functional>
#include <span>
#include <vector>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "tests/bandit/policy_cases.h"

// Options and looks inside that the tests of M-CNB share.
namespace mcnb::cases {

// Users that really disagree: in a good share of rounds a cluster is some users, not all.
inline McnbOptions lively() {
  McnbOptions options = mcnb_preset("algorithm");
  options.gamma = 0.1;
  options.eta_1 = 0.2;
  options.eta_2 = 0.2;
  options.exploration = 0.1;
  options.width = 16;
  return options;
}

inline McnbOptions with(McnbOptions options, const std::function<void(McnbOptions&)>& change) {
  change(options);
  return options;
}

// As the paper's experiments ran, with fewer steps a training.
inline McnbOptions short_replay() {
  return with(mcnb_preset("experiments"), [](McnbOptions& o) {
    o.width = 16;
    o.gamma = 0.1;
    o.exploration = 0.1;
    o.meta_samples = 4;
    o.train_often_until = 200;
    o.train_every_later = 30;
    o.user_steps = 40;
    o.theta_steps = 80;
  });
}

// All that a policy has learned, apart from how much it has computed.
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
