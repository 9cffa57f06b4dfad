#include "mcnb/theory/contexts.h"

#include <algorithm>
#include <cmath>

namespace mcnb {
double inner_product(const Features& a, const Features& b) {
  const std::size_t begin = std::max(a.offset, b.offset);
  const std::size_t end = std::min(a.offset + a.values.size(), b.offset + b.values.size());
  double sum = 0.0;
  for (std::size_t i = begin; i < end; ++i) {
    sum +=
        static_cast<double>(a.values[i - a.offset]) * static_cast<double>(b.values[i - b.offset]);
  }
  return sum;
}

void Contexts::add(const Features& features, double reward) {
  check_features({.inputs = inputs}, features, "context");
  places.push_back({values.size(), features.values.size(), features.offset});
  values.insert(values.end(), features.values.begin(), features.values.end());
  rewards.push_back(reward);
}

Contexts collect_contexts(Environment& environment, std::uint64_t rounds) {
  Contexts contexts{.inputs = environment.inputs(), .values = {}, .places = {}, .rewards = {}};
  for (std::uint64_t t = 0; t < rounds; ++t) {
    const Round& round = environment.next_round();
    for (const Arm& arm : round.arms) {
      contexts.add(arm.features, environment.expected_reward(arm.index));
    }
  }
  return contexts;
}

Contexts distinct_directions(const Contexts& contexts) {
  Contexts kept{.inputs = contexts.inputs, .values = {}, .places = {}, .rewards = {}};
  std::vector<double> norms;
  std::vector<double> members;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const Features features = contexts.features(i);
    const double norm = std::sqrt(inner_product(features, features));
    std::size_t same = 0;
    while (same < kept.size() &&
           inner_product(kept.features(same), features) < (1.0 - kParallel) * norms[same] * norm) {
      ++same;
    }
    if (same == kept.size()) {
      kept.add(features, contexts.rewards[i]);
      norms.push_back(norm);
      members.push_back(1.0);
    } else {
      members[same] += 1.0;
      kept.rewards[same] += (contexts.rewards[i] - kept.rewards[same]) / members[same];
    }
  }
  return kept;
}

}  // namespace mcnb
