// Decides for users and learns from their rewards, then saves the policy and continues with a
// loaded copy. docs/TUTORIAL_CPP.md explains it.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"

namespace {

constexpr std::uint32_t kUsers = 20;

// The four articles of our newspaper: how much each is about sports, politics and music. Vectors of
// length one suit all policies.
const std::vector<std::vector<float>> kArticles = {
    {1.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 0.0F}, {0.0F, 0.0F, 1.0F}, {0.6F, 0.8F, 0.0F}};

// A round offers every article to one user. The round borrows the features: they must stay alive
// while the policy looks at the round.
mcnb::Round make_round(std::uint64_t number) {
  mcnb::Round round{.id = mcnb::RoundId{number}, .arms = {}};
  const mcnb::UserId user{static_cast<std::uint32_t>(number % kUsers)};
  for (std::uint32_t i = 0; i < kArticles.size(); ++i) {
    round.arms.push_back({.index = mcnb::ArmIndex{i}, .user = user, .features = {kArticles[i]}});
  }
  return round;
}

// Users with an even number read about sports, the others about music. The policy does not know.
float reward_of(const mcnb::Arm& arm) {
  const bool likes_sports = static_cast<std::uint32_t>(arm.user) % 2 == 0;
  return arm.features.values[likes_sports ? 0 : 2];
}

// Plays rounds [begin, end) and returns the sum of the rewards.
float play(mcnb::Policy& policy, std::uint64_t begin, std::uint64_t end) {
  float sum = 0.0F;
  for (std::uint64_t number = begin; number < end; ++number) {
    const mcnb::Round round = make_round(number);
    const mcnb::Arm& arm = round.arms[mcnb::index(policy.choose(round))];
    const float reward = reward_of(arm);
    policy.learn(round.id, arm, reward);  // may also come later, or never
    sum += reward;
  }
  return sum;
}

}  // namespace

int main() try {
  mcnb::ThreadPool threads(2);
  const mcnb::PolicySpec spec = mcnb::parse_policy("mcnb:gamma=0.1");
  const mcnb::PolicySetup setup{.inputs = 3, .users = kUsers, .seed = 1, .threads = &threads};
  const std::unique_ptr<mcnb::Policy> policy = mcnb::make_policy(spec, setup);

  std::printf("rounds    1 to 1000: reward %.0f\n", play(*policy, 0, 1000));
  std::printf("rounds 1001 to 2000: reward %.0f\n", play(*policy, 1000, 2000));

  // Why an article ranks where it does, for the user of round 2000.
  for (const mcnb::Score& score : policy->scores(make_round(2000))) {
    std::printf("estimate %+.2f, cluster of %zu users\n", score.estimate, score.cluster_size);
  }

  // A loaded policy continues exactly where the saved one stood.
  const std::string file = (std::filesystem::temp_directory_path() / "newspaper.state").string();
  mcnb::save_policy_file(file, spec, setup, *policy);
  const std::unique_ptr<mcnb::Policy> loaded = mcnb::load_policy_file(file, spec, setup);
  std::filesystem::remove(file);
  const float original = play(*policy, 2000, 2100);
  const float continued = play(*loaded, 2000, 2100);
  std::printf("rounds 2001 to 2100: reward %.0f, and %.0f by the loaded copy\n", original,
              continued);
  return original == continued ? 0 : 1;
} catch (const mcnb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
