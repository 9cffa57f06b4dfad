// A program that uses the installed mcnb. It plays a few rounds of its own with a policy, saves and
// loads it, plays in the synthetic environment, and handles an error.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"
#include "mcnb/experiment/run/runner.h"

namespace {

const std::vector<float> kGood{0.6F, 0.0F, 0.8F};
const std::vector<float> kBad{0.0F, 1.0F, 0.0F};

mcnb::Round make_round(std::uint64_t number) {
  const mcnb::UserId user{static_cast<std::uint32_t>(number % 3)};
  mcnb::Round round{.id = mcnb::RoundId{number}, .arms = {}};
  round.arms.push_back({.index = mcnb::ArmIndex{0}, .user = user, .features = {kGood}});
  round.arms.push_back({.index = mcnb::ArmIndex{1}, .user = user, .features = {kBad}});
  return round;
}

// Plays 60 rounds and returns how often the good arm was taken.
int good_choices(mcnb::Policy& policy) {
  int taken = 0;
  for (std::uint64_t t = 0; t < 60; ++t) {
    const mcnb::Round round = make_round(t);
    const bool first = policy.choose(round) == mcnb::ArmIndex{0};
    policy.learn(round.id, round.arms[first ? 0 : 1], first ? 1.0F : 0.0F);
    taken += first ? 1 : 0;
  }
  return taken;
}

// Three users and two arms; the first arm is the better one.
bool policy_plays_and_is_saved(const std::string& path) {
  mcnb::ThreadPool threads(2);
  const mcnb::PolicySetup setup{.inputs = 3, .users = 3, .seed = 1, .threads = &threads};
  const mcnb::PolicySpec spec{.name = "mcnb", .options = {{"width", "8"}}, .label = "mcnb"};
  const std::unique_ptr<mcnb::Policy> policy = mcnb::make_policy(spec, setup);
  const int taken = good_choices(*policy);
  std::printf("the good arm was taken %d times of 60\n", taken);
  // Without threads in its setup a policy computes on the caller's, with the same results.
  mcnb::PolicySetup alone = setup;
  alone.threads = nullptr;
  if (good_choices(*mcnb::make_policy(spec, alone)) != taken) {
    std::printf("a policy without threads of its own chooses otherwise\n");
    return false;
  }

  mcnb::save_policy_file(path, spec, setup, *policy);
  const std::unique_ptr<mcnb::Policy> copy = mcnb::load_policy_file(path, spec, setup);
  const mcnb::Round next = make_round(60);
  return taken >= 30 && policy->user_count() == 3 &&
         copy->scores(next)[0].value == policy->scores(next)[0].value;
}

bool environment_is_played() {
  const mcnb::Cell cell{.environment = {.name = "synthetic", .options = {{"users", "10"}}},
                        .policy = mcnb::parse_policy("linucb"),
                        .seed = 1,
                        .rounds = 50};
  mcnb::RunControl control;
  const std::optional<mcnb::CellResult> result = mcnb::run_cell(cell, control);
  return result && result->rounds == 50 && result->regret > 0.0;
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

int main(int argc, char** argv) {
  const std::string path = std::string(argc > 0 ? argv[0] : "outside") + ".policy";
  return policy_plays_and_is_saved(path) && environment_is_played() && errors_are_caught() ? 0 : 1;
}
