// An environment of your own, in which built-in policies are compared. docs/TUTORIAL_CPP.md
// explains it.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/environment/environment.h"
#include "mcnb/experiment/run/runner.h"

namespace {

// Shops in a street: an arm is an offer with a price and a quality. Half of the users want it
// cheap, the other half want it good.
class Street : public mcnb::Environment {
 public:
  explicit Street(std::uint64_t seed) : seed_(seed) {
    for (std::uint32_t user = 0; user < kUsers; ++user) {
      start_data_.push_back({mcnb::UserId{user}, {{kStartFeatures}, 0.5F}});
    }
  }

  std::size_t user_count() const override { return kUsers; }
  std::uint32_t inputs() const override { return kFeatures; }
  std::span<const mcnb::StartDatum> start_data() const override { return start_data_; }

  // All random numbers are addressed by the seed and the round, so every policy meets the same
  // rounds.
  const mcnb::Round& next_round() override {
    mcnb::Rng rng(seed_, mcnb::Stream::kRounds, number_);
    round_.id = mcnb::RoundId{number_++};
    round_.arms.clear();
    const mcnb::UserId user{static_cast<std::uint32_t>(rng.below(kUsers))};
    for (std::uint32_t i = 0; i < kArms; ++i) {
      const double angle = rng.uniform() * 1.57;
      features_[i] = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
      round_.arms.push_back({.index = mcnb::ArmIndex{i}, .user = user, .features = {features_[i]}});
    }
    return round_;
  }

  double expected_reward(mcnb::ArmIndex arm) const override {
    const mcnb::Arm& offer = round_.arms[mcnb::index(arm)];
    const bool wants_cheap = static_cast<std::uint32_t>(offer.user) % 2 == 0;
    const double wanted = offer.features.values[wants_cheap ? 0 : 1];
    return wanted * wanted;
  }
  float reward(mcnb::ArmIndex arm) const override {
    return static_cast<float>(expected_reward(arm));
  }

 private:
  static constexpr std::uint32_t kUsers = 40;
  static constexpr std::uint32_t kArms = 5;
  static constexpr std::uint32_t kFeatures = 2;
  static constexpr std::array<float, kFeatures> kStartFeatures = {0.6F, 0.8F};

  std::uint64_t seed_;
  std::uint64_t number_ = 0;
  mcnb::Round round_;
  std::array<std::array<float, kFeatures>, kArms> features_{};
  std::vector<mcnb::StartDatum> start_data_;
};

}  // namespace

int main() try {
  mcnb::ThreadPool threads(2);
  mcnb::RunControl control;
  double random = 0.0;
  double best = 1e9;
  for (const char* name : {"mcnb:gamma=0.1", "club", "linucb:users=each", "random"}) {
    Street street(1);
    const std::unique_ptr<mcnb::Policy> policy =
        mcnb::make_policy(mcnb::parse_policy(name), mcnb::setup_for(street, 1, threads));
    const double regret = mcnb::play(street, *policy, 1500, control)->regret;
    std::printf("%-18s regret %6.1f\n", name, regret);
    random = regret;  // the last one
    best = std::min(best, regret);
  }
  return best < 0.5 * random ? 0 : 1;
} catch (const mcnb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
