#include "mcnb/bandit/linear/upper_bounds.h"

#include <limits>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// The least and the most that a value can be. RidgeState::bound is exact to the last bit, and
// rounded sums and products keep their order, so these limits hold for the computed values too.
struct Limits {
  double lower;
  double upper;
};

bool is_long(const Features& features) { return features.values.size() > kernels::kSmallRidge; }

// Finds the opinion with the highest value without computing all of them.
class BestOpinion {
 public:
  BestOpinion(const Round& round, const UpperBounds& bounds, std::span<const Opinion> opinions)
      : round_(round), bounds_(bounds), opinions_(opinions), limits_(opinions.size()) {
    constexpr std::size_t kWorthAThread = 32;  // opinions: some ten thousand multiplications
    bounds_.threads.parallel_for(opinions_.size(), kWorthAThread,
                                 [&](std::size_t begin, std::size_t end) {
                                   for (std::size_t i = begin; i < end; ++i) {
                                     limits_[i] = limits_of(i);
                                   }
                                 });
    for (const Limits& limits : limits_) {
      floor_ = std::max(floor_, limits.lower);
    }
  }

  ArmIndex arm() {
    std::vector<std::size_t> open;  // opinions that may have the highest value
    for (std::size_t i = 0; i < opinions_.size(); ++i) {
      if (limits_[i].upper >= floor_) {
        open.push_back(i);
      }
    }
    const auto same_arm = [&](std::size_t i) {
      return opinions_[i].arm == opinions_[open.front()].arm;
    };
    const bool decided = !open.empty() && std::ranges::all_of(open, same_arm);
    return decided ? opinions_[open.front()].arm : compare(open);
  }

 private:
  std::span<const float> features_of(std::size_t i) const {
    return round_.arms[index(opinions_[i].arm)].features.values;
  }

  double value_of(std::size_t i) const {
    return bounds_.value(predict(opinions_[i].ridge, features_of(i), bounds_.lambda));
  }

  Limits limits_of(std::size_t i) const {
    const RidgeState* const ridge = opinions_[i].ridge;
    if (ridge == nullptr || !is_long(round_.arms[index(opinions_[i].arm)].features)) {
      const double value = value_of(i);
      return {value, value};
    }
    const RidgePrediction most = ridge->bound(features_of(i));
    return {most.estimate, bounds_.value(most)};
  }

  // Computes the values of the most promising opinions first: then most others are out. The number
  // of threads decides which values are computed, but not which arm is found.
  ArmIndex compare(std::vector<std::size_t>& open) {
    std::ranges::stable_sort(open, std::ranges::greater(),
                             [&](std::size_t i) { return limits_[i].upper; });
    double best = -std::numeric_limits<double>::infinity();
    ArmIndex best_arm{};
    for (std::size_t begin = 0; begin < open.size() && limits_[open[begin]].upper >= floor_;) {
      const std::size_t count = std::min(bounds_.threads.thread_count(), open.size() - begin);
      const std::span<const std::size_t> few = std::span(open).subspan(begin, count);
      bounds_.threads.parallel_for(count, 1, [&](std::size_t k, std::size_t) {
        Limits& limits = limits_[few[k]];
        if (limits.lower != limits.upper) {
          limits.lower = value_of(few[k]);
        }
      });
      for (const std::size_t i : few) {
        const double value = limits_[i].lower;
        const ArmIndex arm = opinions_[i].arm;
        if (value > best || (value == best && arm < best_arm)) {
          best = value;
          best_arm = arm;
        }
      }
      floor_ = std::max(floor_, best);
      begin += count;
    }
    return best_arm;
  }

  const Round& round_;
  const UpperBounds& bounds_;
  std::span<const Opinion> opinions_;
  std::vector<Limits> limits_;                               // by opinion
  double floor_ = -std::numeric_limits<double>::infinity();  // the highest value is at least this
};

}  // namespace

bool has_long_features(const Round& round) {
  return std::ranges::any_of(round.arms, [](const Arm& arm) { return is_long(arm.features); });
}

ArmIndex choose_by_bounds(const Round& round, const UpperBounds& bounds,
                          std::span<const Opinion> opinions) {
  check(!opinions.empty(), "some state judges the arms of a round");
  return BestOpinion(round, bounds, opinions).arm();
}

}  // namespace mcnb
