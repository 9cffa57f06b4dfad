#include "mcnb/numeric/training.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

using kernels::AdamCorrections;

// Adam's bias corrections by step count.
class AdamClock {
 public:
  explicit AdamClock(float rate) : rate_(rate) {}

  // Those of all step counts up to this one; valid until the next call.
  const AdamCorrections* up_to(std::uint32_t step) {
    while (known_.size() <= step) {
      first_power_ *= 0.9;
      second_power_ *= 0.999;
      known_.push_back({static_cast<float>(rate_ / (1.0 - first_power_)),
                        static_cast<float>(1.0 / std::sqrt(1.0 - second_power_))});
    }
    return known_.data();
  }

 private:
  double rate_;
  double first_power_ = 1.0;
  double second_power_ = 1.0;
  std::vector<AdamCorrections> known_{{0.0F, 0.0F}};  // by step count, from 1
};

// Adam over one network, with the moments in the scratch memory: for each row of weights, the bias
// of W_L included, the first and then the second ones, each padded to whole cache lines.
class Adam {
 public:
  Adam(const NetworkShape& shape, std::span<float> network, float rate, TrainingScratch& scratch)
      : shape_(shape), network_(network), scratch_(scratch), clock_(rate) {
    constexpr std::size_t kLine = 64 / sizeof(float);
    const std::size_t rows = shape.layer_offset(shape.depth) / shape.width + 2;
    scratch_.moments.resize(2 * rows * shape.padded_width() + kLine);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_.moments.data()) / sizeof(float);
    moments_ = scratch_.moments.data() + (kLine - address % kLine) % kLine;
    scratch_.row_steps.assign(shape.inputs, 0);
    scratch_.row_has_moved.assign(shape.inputs, 0);
  }

  void step(float error) {
    ++steps_;
    const GradientFactors& factors = scratch_.factors;
    const std::size_t padded = shape_.padded_width();
    const std::size_t row = factors.features.offset;
    kernels::adam_update_rows({.width = shape_.width,
                               .padded = padded,
                               .weights = network_.data() + row * shape_.width,
                               .moments = moments_ + 2 * row * padded,
                               .steps = scratch_.row_steps.data() + row,
                               .has_moved = scratch_.row_has_moved.data() + row,
                               .inputs = factors.features.values,
                               .signals = factors.signals.data(),
                               .error = error,
                               .corrections = clock_.up_to(steps_)});
    for (std::uint32_t layer = 1; layer < shape_.depth; ++layer) {
      const float* signal = factors.signals.data() + (layer - 1) * padded;
      const std::size_t start = shape_.layer_offset(layer);
      if (layer > 1) {
        const float* inputs = factors.activations.data() + (layer - 2) * padded;
        for (std::size_t i = 0; i < shape_.width; ++i) {
          update(start + i * shape_.width, signal, shape_.width, error * inputs[i]);
        }
      }
      if (shape_.biases) {
        update(start + shape_.layer_inputs(layer) * shape_.width, signal, shape_.width, error);
      }
    }
    const std::size_t last = shape_.layer_offset(shape_.depth);
    update(last, factors.activations.data() + (shape_.depth - 2) * padded, shape_.width, error);
    if (shape_.biases) {
      const float one = 1.0F;
      update(last + shape_.width, &one, 1, error);
    }
  }

 private:
  // A row that every step updates.
  void update(std::size_t offset, const float* signals, std::size_t count, float scale) {
    const AdamCorrections corrections = clock_.up_to(steps_)[steps_];
    const std::size_t padded = shape_.padded_width();
    float* moments = moments_ + 2 * (offset / shape_.width) * padded;
    kernels::adam_update({.weights = network_.data() + offset,
                          .first_moments = moments,
                          .second_moments = moments + padded,
                          .signals = signals,
                          .count = count,
                          .scale = scale,
                          .step_size = corrections.step_size,
                          .second_correction = corrections.second,
                          .first_touch = steps_ == 1});
  }

  const NetworkShape& shape_;
  std::span<float> network_;
  TrainingScratch& scratch_;
  AdamClock clock_;
  float* moments_;
  std::uint32_t steps_ = 0;
};

}  // namespace

std::size_t TrainingScratch::memory_bytes() const {
  return (order.capacity() + row_steps.capacity()) * sizeof(std::uint32_t) +
         row_has_moved.capacity() +
         (moments.capacity() + factors.activations.capacity() + factors.signals.capacity()) *
             sizeof(float);
}

void TrainingOptions::validate() const {
  if (!(learning_rate > 0.0F) || !std::isfinite(learning_rate)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("learning rate: expected a positive number, got {}", learning_rate));
  }
  if (step_limit > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("step limit: expected at most 2^32 - 1, got {}", step_limit));
  }
  if (!(stop_loss >= 0.0)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("stop loss: expected zero or more, got {}", stop_loss));
  }
}

TrainingReport train_network(const NetworkShape& shape, std::span<float> network,
                             std::span<const Sample> samples, const TrainingOptions& options,
                             Rng& rng, TrainingScratch& scratch) {
  check(network.size() == shape.parameter_count(), "the parameters match the network's shape");
  check(samples.size() <= std::numeric_limits<std::uint32_t>::max(), "samples have 32-bit numbers");
  options.validate();
  TrainingReport report;
  if (samples.empty()) {
    return report;
  }
  scratch.order.resize(samples.size());
  std::iota(scratch.order.begin(), scratch.order.end(), 0U);
  std::optional<Adam> adam;
  if (options.optimiser == Optimiser::kAdam) {
    adam.emplace(shape, network, options.learning_rate, scratch);
  }
  while (report.steps < options.step_limit) {
    double loss = 0.0;
    for (std::size_t i = 0; i < samples.size() && report.steps < options.step_limit; ++i) {
      // Shuffles while the epoch runs: samples that are not reached are not shuffled.
      std::swap(scratch.order[i],
                scratch.order[i + static_cast<std::size_t>(rng.below(samples.size() - i))]);
      const Sample& sample = samples[scratch.order[i]];
      find_gradient(shape, network, sample.features, scratch.factors);
      const float error = scratch.factors.value - sample.reward;
      loss += 0.5 * static_cast<double>(error) * error;
      if (adam) {
        adam->step(error);
      } else {
        kernels::add_gradient(shape, network.data(), sample.features.values, sample.features.offset,
                              scratch.factors.activations.data(), scratch.factors.signals.data(),
                              -options.learning_rate * error);
      }
      ++report.steps;
      if (i + 1 == samples.size()) {
        ++report.epochs;
        report.last_epoch_loss = loss / static_cast<double>(samples.size());
      }
    }
    if (report.epochs > 0 && report.last_epoch_loss <= options.stop_loss) {
      report.stopped_by_loss = true;
      break;
    }
  }
  return report;
}

}  // namespace mcnb
