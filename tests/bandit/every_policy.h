#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/bandit/policy_cases.h"

namespace mcnb::cases {

// Small versions of all policies, with their variants, to test against the contract of policy.h.
inline std::vector<std::string> every_policy() {
  if (const char* only = std::getenv("MCNB_TEST_POLICY")) {
    return {only};
  }
  std::vector<std::string> all = {
      "club:alpha_2=0.2:lambda=0.1",
      "club:alpha_2=0.3:graph=random",
      "hierarchical:features=trained:body_units=10:body_steps=20:first_fit=5",
      "hierarchical:features=trained:body_units=6:body_steps=9:memory=yes:user_features=yes",
      "kernelucb:bandwidth=0.5:lambda=0.1:users=each:history_limit=10",
      "kernelucb:history_limit=25",
      "cofiba:alpha=0.05:item_groups=4",
      "cofiba:items=auto:alpha=0.5:alpha_2=1",
      "epsilon-greedy:width=10:train_steps=40:epsilon=0.3:decay=0.01",
      "linucb:users=each:lambda=0.1:alpha=1",
      "linucb:users=hybrid:lambda=0.1",
      "linucb:users=hybrid:products=yes",
      "linucb:users=one:alpha=0.5",
      "locb:seeds=2:gamma=2.5:lambda=0.1",
      "locb:alpha=1",
      "mcnb:width=10:depth=3:preset=algorithm",
      "mcnb:width=10:preset=algorithm",
      "mcnb:width=10:preset=experiments:history_limit=15",
      "neuau:width=10:train_steps=40",
      "neuau:width=6:matrix=diagonal:training=online",
      "neural-linear:width=10:train_steps=40:alpha_2=0.3",
      "neural-linear:width=10:train_steps=40:alpha_2=0.3:graph=random:history_limit=15",
      "neural-linear:width=6:depth=3:alpha_2=0.3:training=online",
      "neuralts:width=10:train_steps=40",
      "neuucb-ind:width=10:train_steps=2:matrix=full:history_limit=5",
      "neuucb-ind:width=10:train_steps=40",
      "neuucb-ind:width=6:depth=3:biases=yes:training=online",
      "neuucb-one:width=10:train_steps=40",
      "neuucb-one:width=10:train_steps=40:matrix=diagonal:history_limit=15",
      "neuucb-one:width=6:depth=3:biases=yes:training=online",
      "random",
      "sclub:alpha_w=0.4:lambda=0.1:alpha=1",
      "sclub:alpha_w=3:alpha_p=0.1",
  };
  std::set<std::string> met;
  for (const std::string& text : all) {
    met.insert(parse_policy(text).name);
  }
  for (const PolicyHelp& help : policy_help()) {
    if (met.count(help.name) == 0) {
      all.push_back(help.name);
    }
  }
  return all;
}

inline std::vector<World> every_world() { return {{}, {.features = 3, .blocks = true}}; }

// Calls test(policy's text, world) for every policy in every world.
template <class Test>
void for_every_policy(Test test) {
  for (const std::string& text : every_policy()) {
    for (const World& world : every_world()) {
      SCOPED_TRACE(text + (world.blocks ? ", blocks" : ", dense"));
      test(text, world);
    }
  }
}

inline std::unique_ptr<Policy> make(const std::string& text, const World& world,
                                    ThreadPool& threads) {
  return make_policy(parse_policy(text), setup_of(world, threads));
}

}  // namespace mcnb::cases
