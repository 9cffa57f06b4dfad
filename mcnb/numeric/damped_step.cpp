#include "mcnb/numeric/damped_step.h"

#include <algorithm>
#include <cmath>

#include "mcnb/numeric/kernels.h"

namespace mcnb {

double StepSize::stable_part() const {
  const double most = std::max(8.0 * curvature, 2.0 * reach);
  return most > 1.0 ? 1.0 / most : 1.0;
}

StepSize step_size(const NetworkShape& shape, const GradientFactors& gradient, float reward,
                   double rate) {
  double squares = shape.biases ? 1.0 : 0.0;
  for (const float value : gradient.features.values) {
    squares += static_cast<double>(value) * value;
  }
  const double norm = gradient_norm(shape, gradient);
  const double error = static_cast<double>(gradient.value) - reward;
  return {.curvature = rate * norm * norm, .reach = rate * std::abs(error) * std::sqrt(squares)};
}

bool is_ordinary_step(const NetworkShape& shape, const GradientFactors& gradient, float reward,
                      double rate) {
  return std::abs(reward) <= kOrdinaryReward && std::abs(gradient.value) <= kOrdinaryValue &&
         step_size(shape, gradient, reward, rate).is_ordinary();
}

bool take_damped_step(const NetworkShape& shape, std::span<float> network, const Sample& sample,
                      float rate, DampedStepScratch& scratch) {
  const Features& x = sample.features;
  GradientFactors& gradient = scratch.gradient;
  find_gradient(shape, network, x, gradient);
  const double error = static_cast<double>(gradient.value) - sample.reward;
  if (!std::isfinite(error)) {
    return false;
  }
  float* const parameters = network.data();
  if (is_ordinary_step(shape, gradient, sample.reward, rate)) {
    kernels::sgd_step(shape, {&parameters, 1}, x.values, x.offset, sample.reward, rate);
    return true;
  }
  scratch.before.assign(network.begin(), network.end());
  scratch.activations.resize(shape.hidden_count());
  const auto try_step = [&](double part) {
    std::ranges::copy(scratch.before, network.begin());
    if (part == 1.0) {
      kernels::sgd_step(shape, {&parameters, 1}, x.values, x.offset, sample.reward, rate);
    } else if (part > 0.0) {  // 0 x an infinite gradient is not 0
      kernels::add_gradient(shape, parameters, x.values, x.offset, gradient.activations.data(),
                            gradient.signals.data(), static_cast<float>(-part * rate * error));
    }
    const double value =
        kernels::forward(shape, parameters, x.values, x.offset, scratch.activations.data());
    return std::abs(value - sample.reward) <= std::abs(error) && all_finite(network);
  };
  const StepSize size = step_size(shape, gradient, sample.reward, rate);
  if (!size.is_ordinary() || !try_step(1.0)) {
    shorten_step(size.stable_part(), try_step);
  }
  return true;
}

}  // namespace mcnb
