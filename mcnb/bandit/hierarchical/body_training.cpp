#include "mcnb/bandit/hierarchical/body_training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/check.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/network.h"

namespace mcnb {
namespace {

using Eigen::MatrixXf;
using Eigen::VectorXf;

constexpr double kHeadDecay = 1.0;  // weight decay of the heads, divided by the samples
constexpr double kLastRate = 0.1;   // of the first

std::size_t size_of(const VectorXf& vector) { return static_cast<std::size_t>(vector.size()); }

// The gradients of batches, one sample after the other, with memory to be reused.
class BodyGradient {
 public:
  BodyGradient(const FeatureMap& map, const NetworkShape& shape, std::size_t heads)
      : shape_(shape),
        hidden_at_(map.own_size() - shape.width),
        features_(VectorXf::Zero(signed_size(map.own_size()))),
        weights_(shape.parameter_count()),
        own_(MatrixXf::Zero(signed_size(map.own_size()), signed_size(heads))),
        sums_(shape.padded_width()),
        signals_(shape.padded_width()) {}

  // Adds `share` times a sample's loss to the gradient, and returns the loss.
  double add(std::span<const float> body, const BodyHeads& heads, const BodySample& sample,
             std::uint32_t other, double pull, float share);

  // The heads whose gradient is not zero, in the order of their first sample.
  std::span<const std::uint32_t> touched() const { return touched_; }
  std::span<float> weights() { return std::span(weights_).first(shape_.layer_offset(2)); }
  MatrixXf& own() { return own_; }
  void clear();

 private:
  void touch(std::uint32_t head) {
    if (std::ranges::find(touched_, head) == touched_.end()) {
      touched_.push_back(head);
    }
  }

  NetworkShape shape_;
  std::size_t hidden_at_;  // where the hidden units begin among the own features
  VectorXf features_;
  std::vector<float> weights_;  // of a whole network: the last layer is not used
  MatrixXf own_;
  std::vector<std::uint32_t> touched_;
  std::vector<float> sums_;
  std::vector<float> signals_;
};

double BodyGradient::add(std::span<const float> body, const BodyHeads& heads,
                         const BodySample& sample, std::uint32_t other, double pull, float share) {
  kernels::first_layer(shape_, body.data(), sample.arm, 0, sums_.data());
  features_[0] = 1.0F;
  if (hidden_at_ > 1) {
    std::ranges::copy(sample.arm, features_.data() + 1);
  }
  for (std::size_t i = 0; i < shape_.width; ++i) {
    features_[signed_size(hidden_at_ + i)] = std::max(0.0F, sums_[i]);
  }
  const std::size_t size = size_of(features_);
  const auto own = heads.own.col(sample.head);
  const auto pulled = heads.own.col(other);
  const float shared_said = kernels::dot(features_.data(), heads.shared.data(), size);
  const float said = shared_said + kernels::dot(features_.data(), own.data(), size);
  const float other_said = shared_said + kernels::dot(features_.data(), pulled.data(), size);
  const float error = said - sample.target;
  const float strength = static_cast<float>(pull) * sample.weight;
  const float slope = share * sample.weight * error;
  const float other_slope = share * strength * other_said;
  for (std::size_t i = 0; i < shape_.width; ++i) {
    const auto at = signed_size(hidden_at_ + i);
    signals_[i] = sums_[i] > 0.0F ? slope * (heads.shared[at] + own[at]) +
                                        other_slope * (heads.shared[at] + pulled[at])
                                  : 0.0F;
  }
  kernels::add_gradient(shape_, weights_.data(), sample.arm, 0, sums_.data(), signals_.data(),
                        1.0F);
  own_.col(sample.head) += slope * features_;
  own_.col(other) += other_slope * features_;
  touch(sample.head);
  touch(other);
  return 0.5 * static_cast<double>(share) *
         static_cast<double>(sample.weight * error * error + strength * other_said * other_said);
}

void BodyGradient::clear() {
  std::ranges::fill(weights_, 0.0F);
  for (const std::uint32_t head : touched_) {
    own_.col(head).setZero();
  }
  touched_.clear();
}

// Adam over one list of weights.
class AdamMoments {
 public:
  explicit AdamMoments(std::size_t size = 0) : first_(size), second_(size) {}

  void step(std::span<float> weights, std::span<const float> gradient, double rate) {
    ++steps_;
    kernels::adam_update(
        {.weights = weights.data(),
         .first_moments = first_.data(),
         .second_moments = second_.data(),
         .signals = gradient.data(),
         .count = weights.size(),
         .scale = 1.0F,
         .step_size = static_cast<float>(rate / (1.0 - std::pow(0.9, steps_))),
         .second_correction = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(0.999, steps_))),
         .first_touch = steps_ == 1});
  }

 private:
  std::vector<float> first_;
  std::vector<float> second_;
  int steps_ = 0;
};

// Samples in a random order, and in a new one when all had their turn.
class SampleOrder {
 public:
  SampleOrder(std::size_t samples, Rng rng) : order_(samples), rng_(rng) {
    std::iota(order_.begin(), order_.end(), 0U);
  }
  std::size_t next() {
    if (at_ == order_.size()) {
      at_ = 0;
    }
    // Shuffles while it goes: samples that are not reached are not shuffled.
    std::swap(order_[at_], order_[at_ + static_cast<std::size_t>(rng_.below(order_.size() - at_))]);
    return order_[at_++];
  }

 private:
  std::vector<std::uint32_t> order_;
  std::size_t at_ = 0;
  Rng rng_;
};

}  // namespace

BodyLoss body_loss(const FeatureMap& map, std::span<const BodySample> samples,
                   std::span<const std::uint32_t> others, const BodyHeads& heads, double pull) {
  check(samples.size() == others.size(), "each sample has another learner");
  const FeatureBody& body = *map.body();
  BodyGradient gradient(map, body.shape(), static_cast<std::size_t>(heads.own.cols()));
  BodyLoss loss;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    loss.value += gradient.add(body.weights(), heads, samples[i], others[i], pull, 1.0F);
  }
  loss.weights.assign(gradient.weights().begin(), gradient.weights().end());
  loss.own = gradient.own();
  return loss;
}

std::shared_ptr<const FeatureBody> train_body(const FeatureMap& map,
                                              std::span<const BodySample> samples, BodyHeads heads,
                                              const BodyTraining& training, std::uint64_t number,
                                              const std::atomic<bool>& cancelled) {
  const std::shared_ptr<const FeatureBody>& start = map.body();
  if (samples.empty()) {
    return start;
  }
  const auto learners = static_cast<std::size_t>(heads.own.cols());
  std::vector<float> body(start->weights().begin(), start->weights().end());
  BodyGradient gradient(map, start->shape(), learners);
  AdamMoments body_moments(body.size());
  std::vector<AdamMoments> head_moments(learners, AdamMoments(map.own_size()));
  SampleOrder order(samples.size(), Rng(training.seed, Stream::kBodySamples, number));
  Rng others(training.seed, Stream::kBodySamples, number, 1);
  const std::size_t batch = std::min(training.batch, samples.size());
  const float share = 1.0F / static_cast<float>(batch);
  const float decay = static_cast<float>(kHeadDecay / static_cast<double>(samples.size()));
  const std::uint64_t steps = std::max(training.steps, training.passes * samples.size() / batch);
  for (std::uint64_t step = 0; step < steps && !cancelled; ++step) {
    gradient.clear();
    for (std::size_t i = 0; i < batch; ++i) {
      const BodySample& sample = samples[order.next()];
      const auto other = static_cast<std::uint32_t>(others.below(learners));
      gradient.add(body, heads, sample, other, training.pull, share);
    }
    const double part = static_cast<double>(step) / static_cast<double>(steps);
    const double rate = training.rate * (1.0 - (1.0 - kLastRate) * part);
    body_moments.step(body, gradient.weights(), rate);
    for (const std::uint32_t head : gradient.touched()) {
      auto weights = heads.own.col(head);
      auto slope = gradient.own().col(head);
      slope += decay * (heads.shared + weights);
      head_moments[head].step({weights.data(), map.own_size()}, {slope.data(), map.own_size()},
                              rate);
    }
  }
  return all_finite(body) ? std::make_shared<const FeatureBody>(*start, body) : start;
}

}  // namespace mcnb
