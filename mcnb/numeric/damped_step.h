#pragma once

#include <span>
#include <vector>

#include "mcnb/numeric/network.h"

namespace mcnb {

// Steps of gradient descent that cannot blow up. With rewards in [-1, 1] and features of unit
// length a plain step at a sensible rate is stable. With rewards of a million it overshoots by
// orders of magnitude, and a few such steps leave the finite numbers. Such a step is damped: it
// becomes so short that its loss does not grow.
//
// A step has one of three courses:
// - It is plain, without a look at what it does, if the reward and the network's value are within
//   the limits below and StepSize::is_ordinary holds. So runs that need no damping keep their bits.
// - If only StepSize::is_ordinary holds, the plain step is tried. It is kept if its loss does not
//   grow and the network stays finite.
// - Otherwise the step is shortened (shorten_step).
// The meta-learner tests the rewards of an adaptation and the network that its plain steps lead to.
// If they are not ordinary, it takes the steps again, each by the second or the third course.
inline constexpr float kOrdinaryReward = 1.0F;  // the largest reward
inline constexpr float kOrdinaryValue = 3.0F;   // the largest value of a network

// How a step of some rate would move a network, in the mean over its samples.
struct StepSize {
  double curvature = 0.0;  // rate |grad f(x)|^2; beyond 2 the step increases a small error
  double reach = 0.0;      // rate |f(x) - r| |x|: at 1, it changes the layers by their own size

  void add(const StepSize& other, double weight) {
    curvature += weight * other.curvature;
    reach += weight * other.reach;
  }
  // False for a step that would multiply its error, and for one whose size is not a number. (The
  // default rates stay below 2.7 and 0.7 with rewards in [0, 1].)
  bool is_ordinary() const { return curvature <= 4.0 && reach <= 2.0; }
  // The part of the rate, at most 1, with which the step removes an eighth of the error, so that
  // noise averages out, and changes no layer by more than half of its size.
  double stable_part() const;
};

// The size of a step on one sample; `gradient` is that of the network at the sample's features.
StepSize step_size(const NetworkShape& shape, const GradientFactors& gradient, float reward,
                   double rate);

// Whether a step on one sample is plain without a look at what it does.
bool is_ordinary_step(const NetworkShape& shape, const GradientFactors& gradient, float reward,
                      double rate);

// Makes a step shorter and shorter until it does not increase the loss. `try_step(part)` takes this
// part of the step from where it began and returns whether the loss is finite and not larger; part
// 0 must restore the beginning. Starts with `part`.
template <class TryStep>
void shorten_step(double part, TryStep try_step) {
  constexpr int kMostTries = 60;
  for (int i = 0; i < kMostTries; ++i, part /= 2.0) {
    if (try_step(part)) {
      return;
    }
  }
  try_step(0.0);
}

// Memory of a step on one sample, to be reused.
struct DampedStepScratch {
  GradientFactors gradient;
  std::vector<float> before;  // the network
  std::vector<float> activations;
};

// One SGD step of `rate` on (f(x) - r)^2 / 2. It is plain if is_ordinary_step holds; it is also
// plain if its StepSize is ordinary, it does not increase the loss and the network stays finite.
// Otherwise it is shortened. A plain step has the bits of kernels::sgd_step. Returns false, and
// leaves the network as it is, if f(x) is not finite. Requires a sample that check_sample accepts.
bool take_damped_step(const NetworkShape& shape, std::span<float> network, const Sample& sample,
                      float rate, DampedStepScratch& scratch);

}  // namespace mcnb
