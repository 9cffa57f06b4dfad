#include "mcnb/bandit/linear/linear_choice.h"

#include <algorithm>
#include <limits>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// What a value is at least and at most. RidgeState keeps to its bounds, and sums and products keep
// their order when they are rounded, so that these hold to the last bit.
struct Bounds {
  double lower;
  double upper;
};

bool is_long(const Features& features) { return features.values.size() > kernels::kSmallRidge; }

Bounds find_bounds(const RidgeState& ridge, std::span<const float> x, double scale) {
  const RidgePrediction said = ridge.bound(x);
  return {said.estimate, said.estimate + scale * said.uncertainty};
}

double find_value(const RidgeState* ridge, std::span<const float> x, double lambda, double scale) {
  const RidgePrediction said = predict(ridge, x, lambda);
  return said.estimate + scale * said.uncertainty;
}

}  // namespace

bool has_long_features(const Round& round) {
  return std::ranges::any_of(round.arms, [](const Arm& arm) { return is_long(arm.features); });
}

ArmIndex choose_by_bounds(const Round& round, std::span<const Opinion> opinions, double lambda,
                          double scale, ThreadPool& threads) {
  check(!opinions.empty(), "some state speaks about the arms of a round");
  constexpr std::size_t kWorthAThread = 32;  // opinions: some ten thousand multiplications
  std::vector<Bounds> bounds(opinions.size());
  threads.parallel_for(opinions.size(), kWorthAThread, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Features& features = round.arms[index(opinions[i].arm)].features;
      if (opinions[i].ridge != nullptr && is_long(features)) {
        bounds[i] = find_bounds(*opinions[i].ridge, features.values, scale);
      } else {
        bounds[i].lower = find_value(opinions[i].ridge, features.values, lambda, scale);
        bounds[i].upper = bounds[i].lower;
      }
    }
  });
  double floor = -std::numeric_limits<double>::infinity();  // of the highest value
  for (const Bounds& of : bounds) {
    floor = std::max(floor, of.lower);
  }
  std::vector<std::size_t> open;  // opinions that may be the highest
  for (std::size_t i = 0; i < opinions.size(); ++i) {
    if (bounds[i].upper >= floor) {
      open.push_back(i);
    }
  }
  const auto arm_of = [&](std::size_t i) { return opinions[i].arm; };
  if (!open.empty() && std::ranges::count(open, arm_of(open.front()), arm_of) ==
                           static_cast<std::ptrdiff_t>(open.size())) {
    return arm_of(open.front());
  }
  // Those that may be highest come first: with the values of a few, most others are out. Which are
  // looked at may depend on the number of threads, what is found does not.
  std::ranges::stable_sort(open, std::ranges::greater(),
                           [&](std::size_t i) { return bounds[i].upper; });
  struct {
    double value = -std::numeric_limits<double>::infinity();
    ArmIndex arm{};
  } best;
  for (std::size_t begin = 0; begin < open.size() && bounds[open[begin]].upper >= floor;) {
    const std::size_t count = std::min(threads.thread_count(), open.size() - begin);
    const std::span<const std::size_t> few = std::span(open).subspan(begin, count);
    threads.parallel_for(count, 1, [&](std::size_t place, std::size_t) {
      const Opinion& opinion = opinions[few[place]];
      Bounds& of = bounds[few[place]];
      if (of.lower != of.upper) {
        of.lower = find_value(opinion.ridge, round.arms[index(opinion.arm)].features.values, lambda,
                              scale);
      }
    });
    for (const std::size_t i : few) {
      const double value = bounds[i].lower;
      if (value > best.value || (value == best.value && arm_of(i) < best.arm)) {
        best = {value, arm_of(i)};
      }
    }
    floor = std::max(floor, best.value);
    begin += count;
  }
  return best.arm;
}

}  // namespace mcnb
