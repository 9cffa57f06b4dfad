// A program of somebody who uses the installed mcnb: lets a policy play a few rounds of its own,
// and meets an error.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/ridge.h"

namespace {

// Three users, two arms; the first arm is the one to take.
bool policy_plays() {
  mcnb::ThreadPool threads(2);
  const mcnb::PolicySetup setup{.inputs = 3, .users = 3, .seed = 1, .threads = &threads};
  const std::unique_ptr<mcnb::Policy> policy =
      mcnb::make_policy({.name = "mcnb", .options = {{"width", "8"}}, .label = "mcnb"}, setup);
  const std::vector<float> good{0.6F, 0.0F, 0.8F};
  const std::vector<float> bad{0.0F, 1.0F, 0.0F};
  int taken = 0;
  for (std::uint64_t t = 0; t < 60; ++t) {
    const mcnb::UserId user{static_cast<std::uint32_t>(t % 3)};
    mcnb::Round round{.id = mcnb::RoundId{t}, .arms = {}};
    round.arms.push_back({.index = mcnb::ArmIndex{0}, .user = user, .features = {good}});
    round.arms.push_back({.index = mcnb::ArmIndex{1}, .user = user, .features = {bad}});
    const mcnb::ArmIndex arm = policy->choose(round);
    const bool first = arm == mcnb::ArmIndex{0};
    policy->learn(round.id, round.arms[first ? 0 : 1], first ? 1.0F : 0.0F);
    taken += first ? 1 : 0;
  }
  std::printf("the good arm was taken %d times of 60\n", taken);
  return policy->user_count() == 3 && taken >= 30;
}

bool ridge_learns() {
  mcnb::RidgeState ridge(2, 1.0);
  const std::vector<float> x{1.0F, 0.0F};
  ridge.add(x, 1.0);
  return std::abs(ridge.estimate(x) - 0.5) < 1e-12;  // 1 / (1 + lambda)
}

bool errors_are_caught() {
  try {
    mcnb::parse_policy("nobody");
    return false;
  } catch (const mcnb::Error& error) {
    std::puts(error.what());
    return error.kind() == mcnb::ErrorKind::kUsage;
  }
}

}  // namespace

int main() { return policy_plays() && ridge_learns() && errors_are_caught() ? 0 : 1; }
