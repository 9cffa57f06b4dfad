// Which events an adaptation rests on.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "mcnb/bandit/mcnb/mcnb.h"

namespace mcnb {

std::vector<Mcnb::Influence> Mcnb::influences(RoundId round, const Arm& arm, std::size_t most) {
  check_arm(arm, user_count(), shape());
  unit_arms_.clear();
  const Candidate one = candidate(round, arm);
  const FoundCluster cluster = std::move(users_like({&one, 1}).front());
  grow_memories(1);
  auto& [draws, scratch] = memories_[0];
  const auto drawn = draws.draw(histories_, cluster, round, arm.index);
  std::vector<std::vector<Draw>> steps(drawn.begin(), drawn.end());
  if (!is_online()) {
    meta_.keep_sums(histories_, one.arm.features);
  }
  std::map<EventId, double> lengths;  // of the steps towards each event, up to a factor
  for (const std::vector<Draw>& step : steps) {
    for (const Draw& draw : step) {
      const Sample sample = histories_.sample(draw.event);
      lengths[draw.event] +=
          draw.weight * std::abs(sample.reward - meta_.estimate(sample.features));
    }
  }
  std::vector<std::pair<EventId, double>> longest(lengths.begin(), lengths.end());
  std::ranges::stable_sort(longest, std::greater(), &std::pair<EventId, double>::second);
  longest.resize(std::min(longest.size(), most));
  const auto estimate = [&] {
    return meta_.adapted_at(one.arm.features, steps, histories_, options_.eta_2, scratch).estimate;
  };
  const double whole = longest.empty() ? 0.0 : estimate();
  std::vector<Influence> found;
  for (const auto& [event, length] : longest) {
    const std::vector<std::vector<Draw>> all = steps;
    for (std::vector<Draw>& step : steps) {
      for (Draw& draw : step) {
        draw.weight = draw.event == event ? 0.0F : draw.weight;
      }
    }
    found.push_back({event, whole - estimate()});
    steps = all;
  }
  std::ranges::stable_sort(found, std::greater(), [](const Influence& influence) {
    return std::abs(influence.moved);
  });
  return found;
}

}  // namespace mcnb
