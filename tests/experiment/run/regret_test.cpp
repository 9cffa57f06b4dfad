// The goal of the whole program: if users form groups and rewards are not linear, M-CNB has less
// regret than policies that ignore the groups, and than random choice.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/experiment/run/runner.h"
#include "tests/sanitizers.h"

namespace mcnb::regret_test {
namespace {

TEST(Regret, OfMcnbIsLessThanOfRandomChoiceAndOfOneLinearModelForAll) {
  const EnvironmentSpec world{"synthetic",
                              {{"users", "20"},
                               {"clusters", "2"},
                               {"features", "5"},
                               {"items", "100"},
                               {"reward", "network"}}};
  std::map<std::string, double> regret;
  RunControl control;
  for (const PolicySpec& policy : parse_policies("mcnb,linucb,random")) {
    for (std::uint64_t seed = 1; seed <= (kThreadSanitized ? 1 : 3); ++seed) {
      regret[policy.name] += run_cell({world, policy, seed, 600}, control)->regret;
    }
  }
  EXPECT_LT(regret["mcnb"], regret["random"]);
  EXPECT_LT(regret["mcnb"], regret["linucb"]);
}

}  // namespace
}  // namespace mcnb::regret_test
