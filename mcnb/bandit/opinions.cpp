#include "mcnb/bandit/opinions.h"

#include <cmath>
#include <utility>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/mcnb/unit_arms.h"

namespace mcnb {
namespace {

// Clusters, for which `scores` looks at all users, are not needed.
void find_estimates(const Mcnb& policy, std::span<const UserId> users,
                    std::span<const Features> arms, std::vector<float>& out) {
  UnitArms unit_arms;
  std::vector<Features> seen;
  const bool unit = policy.options().normalise == Normalise::kUnit;
  for (const Features& arm : arms) {
    seen.push_back(unit ? unit_arms.scaled(arm) : arm);
  }
  std::vector<UserId> learners;
  for (const UserId user : users) {
    learners.push_back(policy.learner_of(user));
  }
  ThreadPool here(1);
  Predictions estimates;
  policy.user_learners().predict(here, seen, learners, estimates);
  for (std::size_t user = 0; user < users.size(); ++user) {
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      out.push_back(estimates.row(arm)[user]);
    }
  }
}

}  // namespace

void find_opinions(Policy& policy, std::span<const UserId> users, std::span<const Features> arms,
                   std::vector<float>& out) {
  if (const auto* mcnb = dynamic_cast<const Mcnb*>(&policy)) {
    find_estimates(*mcnb, users, arms, out);
    return;
  }
  Round round;
  for (const Features& features : arms) {
    const ArmIndex next{static_cast<std::uint32_t>(round.arms.size())};
    round.arms.push_back({.index = next, .user = {}, .features = features});
  }
  for (const UserId user : users) {
    for (Arm& arm : round.arms) {
      arm.user = user;
    }
    for (const Score& score : policy.scores(round)) {
      out.push_back(static_cast<float>(score.estimate));
    }
  }
}

std::optional<double> shared_movement(const Policy& policy) {
  const auto* const mcnb = dynamic_cast<const Mcnb*>(&policy);
  if (mcnb == nullptr) {
    return std::nullopt;
  }
  const std::span<const float> start = mcnb->user_learners().start();
  const std::span<const float> theta = mcnb->meta_learner().parameters();
  double squares = 0.0;
  for (std::size_t i = 0; i < theta.size(); ++i) {
    const double moved = static_cast<double>(theta[i]) - start[i];
    squares += moved * moved;
  }
  return std::sqrt(squares);
}

CloserLook look_closer(Policy& policy, RoundId round, const Arm& arm, std::size_t most) {
  CloserLook look{policy.cluster(arm), {}};
  auto* const mcnb = dynamic_cast<Mcnb*>(&policy);
  if (mcnb == nullptr) {
    return look;
  }
  for (const Mcnb::Influence& influence : mcnb->influences(round, arm, most)) {
    const Sample sample = mcnb->histories().sample(influence.event);
    std::vector<float> features(sample.features.offset);
    features.insert(features.end(), sample.features.values.begin(), sample.features.values.end());
    look.samples.push_back({std::move(features), sample.reward, influence.moved});
  }
  return look;
}

}  // namespace mcnb
