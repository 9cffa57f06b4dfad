#include "mcnb/serve/model/exploration.h"

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {

std::vector<double> epsilon_floor(const std::vector<bool>& eligible, std::size_t preferred,
                                  double epsilon) {
  check(eligible.at(preferred), "the preferred action is eligible");
  const auto count = static_cast<double>(std::ranges::count(eligible, true));
  std::vector<double> probabilities(eligible.size());
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    probabilities[i] = eligible[i] ? epsilon / count : 0.0;
  }
  probabilities[preferred] = 1.0 - epsilon * (count - 1.0) / count;
  return probabilities;
}

std::size_t draw_action(std::span<const double> probabilities, Rng rng) {
  double left = rng.uniform();
  std::size_t last = probabilities.size();
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0.0) {
      continue;
    }
    last = i;
    if (left < probabilities[i]) {
      return i;
    }
    left -= probabilities[i];
  }
  check(last < probabilities.size(), "an action has a probability");
  return last;  // the rounded probabilities sum to a little less than 1
}

}  // namespace mcnb
