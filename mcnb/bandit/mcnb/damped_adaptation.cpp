// The adaptations of the meta-learner that need damping. They are rare, so they are plain code.
#include <algorithm>
#include <cmath>

#include "mcnb/bandit/mcnb/meta_learner.h"

namespace mcnb {

// Moves `scratch.network` by these steps. Returns whether one was damped.
bool MetaLearner::take_damped_steps(std::span<const std::vector<Draw>> steps,
                                    const Histories& histories, double rate,
                                    MetaScratch& scratch) const {
  bool is_damped = false;
  for (const std::vector<Draw>& draws : steps) {
    if (!draws.empty() && take_damped_step(draws, histories, rate, scratch)) {
      is_damped = true;
    }
  }
  return is_damped;
}

// Moves `scratch.network` by a plain step if that does not increase the mean loss of the draws,
// otherwise by a part of it. Returns whether it was a part.
bool MetaLearner::take_damped_step(const std::vector<Draw>& draws, const Histories& histories,
                                   double rate, MetaScratch& scratch) const {
  std::vector<float>& network = scratch.network;
  scratch.before = network;
  const Descent descent = find_descent(draws, histories, rate, scratch);
  const auto improves = [&] {
    return mean_loss(draws, histories, scratch) <= descent.loss && all_finite(network);
  };
  if (descent.size.is_ordinary()) {
    take_steps({&draws, 1}, histories, rate, scratch);
    if (improves()) {
      return false;
    }
  }
  shorten_step(descent.size.stable_part(), [&](double part) {
    if (part == 0.0) {  // 0 x an infinite gradient is not 0
      network = scratch.before;
      return improves();
    }
    const double factor = part * rate * descent.scale;
    for (std::size_t i = 0; i < network.size(); ++i) {
      network[i] = static_cast<float>(scratch.before[i] - factor * scratch.direction[i]);
    }
    return improves();
  });
  return true;
}

// Leaves the gradient of the mean loss at `scratch.network`, divided by the result's scale, in
// `scratch.direction`.
MetaLearner::Descent MetaLearner::find_descent(std::span<const Draw> draws,
                                               const Histories& histories, double rate,
                                               MetaScratch& scratch) const {
  const NetworkShape shape = scratch.inputs.shape(shape_);
  const auto error = [](const GradientFactors& at, const Sample& sample) {
    return static_cast<double>(at.value) - sample.reward;
  };
  std::vector<GradientFactors>& gradients = scratch.samples;
  gradients.resize(std::max(gradients.size(), draws.size()));
  Descent descent;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const Sample sample = histories.sample(draws[i].event);
    find_gradient(shape, scratch.network, scratch.inputs.renumbered(sample.features), gradients[i]);
    descent.size.add(step_size(shape, gradients[i], sample.reward, rate), draws[i].weight);
    descent.scale = std::max(descent.scale, std::abs(error(gradients[i], sample)));
    descent.loss += draws[i].weight * std::pow(error(gradients[i], sample), 2) / 2.0;
  }
  scratch.direction.assign(scratch.network.size(), 0.0F);
  for (std::size_t i = 0; i < draws.size() && descent.scale > 0.0; ++i) {
    const Sample sample = histories.sample(draws[i].event);
    const Features& x = gradients[i].features;
    kernels::add_gradient(
        shape, scratch.direction.data(), x.values, x.offset, gradients[i].activations.data(),
        gradients[i].signals.data(),
        static_cast<float>(draws[i].weight * error(gradients[i], sample) / descent.scale));
  }
  return descent;
}

double MetaLearner::mean_loss(std::span<const Draw> draws, const Histories& histories,
                              MetaScratch& scratch) const {
  const NetworkShape shape = scratch.inputs.shape(shape_);
  scratch.activations.resize(shape.hidden_count());
  double loss = 0.0;
  for (const Draw& draw : draws) {
    const Sample sample = histories.sample(draw.event);
    const Features x = scratch.inputs.renumbered(sample.features);
    const double value = kernels::forward(shape, scratch.network.data(), x.values, x.offset,
                                          scratch.activations.data());
    loss += draw.weight * std::pow(value - sample.reward, 2) / 2.0;
  }
  return loss;
}

}  // namespace mcnb
