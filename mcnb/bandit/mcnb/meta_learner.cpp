#include "mcnb/bandit/mcnb/meta_learner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::size_t kPrefetchDistance = 8;  // draws
constexpr float kOrdinaryParameter = 16.0F;   // the largest that an unchecked adaptation may leave

// Whether the steps so far have left a network at which a further one, at the point of
// `scratch.adapted`, is an ordinary step.
bool went_as_usual(const NetworkShape& shape, double rate, const MetaScratch& scratch) {
  return scratch.has_ordinary_rewards && std::abs(scratch.adapted.value) <= kOrdinaryValue &&
         step_size(shape, scratch.adapted, scratch.adapted.value, rate).is_ordinary();
}

bool is_ordinary(std::span<const float> parameters) {
  float largest = 0.0F;
  for (const float parameter : parameters) {
    largest = std::max(largest, std::abs(parameter));
  }
  return largest <= kOrdinaryParameter && all_finite(parameters);
}

}  // namespace

// a . b; inputs that only one of the two has count as zero in the other.
float MetaLearner::inner_product(const Features& a, const Features& b) {
  if (a.offset == b.offset && a.values.size() == b.values.size()) {
    return kernels::dot(a.values.data(), b.values.data(), a.values.size());
  }
  const std::size_t begin = std::max(a.offset, b.offset);
  const std::size_t end = std::min(a.offset + a.values.size(), b.offset + b.values.size());
  return begin >= end ? 0.0F
                      : kernels::dot(a.values.data() + (begin - a.offset),
                                     b.values.data() + (begin - b.offset), end - begin);
}

std::size_t MetaScratch::memory_bytes() const {
  return draws.capacity() * sizeof draws[0] + features.capacity() * sizeof features[0] +
         blocks.capacity() * sizeof blocks[0] +
         implicit_draws.capacity() * sizeof implicit_draws[0] +
         earlier.capacity() * sizeof earlier[0] + ends.capacity() * sizeof ends[0] +
         (kernel_memory.capacity() + network.capacity() + next_network.capacity() +
          before.capacity() + direction.capacity() + activations.capacity() + moves.capacity() +
          bias_moves.capacity() + sums.capacity()) *
             sizeof(float);
}

MetaLearner::MetaLearner(const NetworkShape& shape, std::vector<float> start)
    : shape_(shape), start_(std::move(start)), parameters_(start_) {
  check(start_.size() == shape.parameter_count(), "the parameters match the network's shape");
}

std::size_t MetaLearner::memory_bytes() const {
  return (start_.capacity() + parameters_.capacity()) * sizeof(float) + sums_.memory_bytes();
}

void MetaLearner::keep_sums(const Histories& histories, const Features& x) {
  keeps_sums_ = true;
  if (is_long(x)) {
    sums_.grow(histories.event_slots(), shape_.padded_width());
  }
}

float MetaLearner::estimate(const Features& x) const {
  std::vector<float> activations(shape_.hidden_count());
  return kernels::forward(shape_, parameters_.data(), x.values, x.offset, activations.data());
}

AdaptedMeta MetaLearner::adapted_at(const Features& x, std::span<const std::vector<Draw>> steps,
                                    const Histories& histories, double rate,
                                    MetaScratch& scratch) const {
  check(!steps.empty(), "an adaptation has a step");
  const AdaptedMeta plain = plain_at(x, steps, histories, rate, scratch);
  if (went_as_usual(shape_, rate, scratch)) {
    return plain;
  }
  copy_network(x, steps, histories, scratch);
  if (!take_damped_steps(steps, histories, rate, scratch)) {
    return plain;
  }
  find_gradient(scratch.inputs.shape(shape_), scratch.network, scratch.inputs.renumbered(x),
                scratch.adapted);
  scratch.adapted.features = x;
  return {scratch.adapted.value, gradient_distance(shape_, scratch.adapted, scratch.start),
          plain.steps};
}

// `adapted_at` without damping. Leaves the gradient at x in `scratch.adapted`.
AdaptedMeta MetaLearner::plain_at(const Features& x, std::span<const std::vector<Draw>> steps,
                                  const Histories& histories, double rate,
                                  MetaScratch& scratch) const {
  scratch.has_ordinary_rewards = true;
  if (is_cheaper_implicitly(x, steps, histories, scratch)) {
    adapt_implicitly(x, steps, histories, rate, scratch);
  } else if (shape_.depth == 2 && steps.size() == 1) {
    scratch.inputs.use_all();
    take_last_step({shape_, parameters_.data()}, x, steps[0], histories, rate, scratch);
  } else {
    copy_network(x, steps, histories, scratch);
    const NetworkShape shape = scratch.inputs.shape(shape_);
    if (shape_.depth == 2) {
      take_steps(steps.first(steps.size() - 1), histories, rate, scratch);
      take_last_step({shape, scratch.network.data()}, x, steps.back(), histories, rate, scratch);
    } else {
      take_steps(steps, histories, rate, scratch);
      find_gradient(shape, scratch.network, scratch.inputs.renumbered(x), scratch.adapted);
      scratch.adapted.features = x;
    }
  }
  find_gradient(shape_, start_, x, scratch.start);
  AdaptedMeta meta{scratch.adapted.value,
                   gradient_distance(shape_, scratch.adapted, scratch.start)};
  for (const std::vector<Draw>& draws : steps) {
    meta.steps += draws.size();
  }
  return meta;
}

bool MetaLearner::adapt(const Features& x, std::span<const std::vector<Draw>> steps,
                        const Histories& histories, double rate, MetaScratch& scratch) {
  if (std::ranges::all_of(steps, &std::vector<Draw>::empty)) {
    return true;
  }
  copy_network(x, steps, histories, scratch);
  scratch.has_ordinary_rewards = true;
  take_steps(steps, histories, rate, scratch);
  const NetworkShape shape = scratch.inputs.shape(shape_);
  find_gradient(shape, scratch.network, scratch.inputs.renumbered(x), scratch.adapted);
  if (!went_as_usual(shape, rate, scratch) || !is_ordinary(scratch.network)) {
    scratch.inputs.extract(shape_, parameters_, scratch.network);
    take_damped_steps(steps, histories, rate, scratch);
  }
  if (!all_finite(scratch.network)) {
    return false;
  }
  // Copied, not swapped: callers may hold a span of the parameters.
  scratch.inputs.write_back(shape_, scratch.network, parameters());
  return true;
}

// Copies Theta into `scratch.network`. If x is a block, the copy has only the inputs that x and the
// draws have.
void MetaLearner::copy_network(const Features& x, std::span<const std::vector<Draw>> steps,
                               const Histories& histories, MetaScratch& scratch) const {
  if (x.values.size() == shape_.inputs) {
    scratch.inputs.use_all();
  } else {
    std::vector<Features>& features = scratch.features;
    features.assign(1, x);
    for (const std::vector<Draw>& draws : steps) {
      for (const Draw& draw : draws) {
        features.push_back(histories.sample(draw.event).features);
      }
    }
    scratch.inputs.use_only(features);
  }
  scratch.inputs.extract(shape_, parameters_, scratch.network);
}

// Fills `scratch.draws`, the form that the kernels read. Returns whether the features of all draws
// are the same inputs.
bool MetaLearner::prepare_draws(std::span<const Draw> draws, const Histories& histories,
                                double rate, const Features* x, MetaScratch& scratch) const {
  scratch.draws.clear();
  bool same_inputs = true;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const Draw& draw = draws[i];
    histories.fetch(draws[std::min(i + kPrefetchDistance, draws.size() - 1)].event);
    const Sample sample = histories.sample(draw.event);
    const Features& at = sample.features;
    const float bias = shape_.biases ? 1.0F : 0.0F;
    scratch.draws.push_back({.x = at.values.data(),
                             .count = static_cast<std::uint32_t>(at.values.size()),
                             .row = scratch.inputs.number_of(at.offset),
                             .reward = sample.reward,
                             .factor = static_cast<float>(-rate * draw.weight),
                             .inner = x == nullptr ? 0.0F : inner_product(at, *x) + bias});
    scratch.note_reward(sample.reward);
    same_inputs = same_inputs && scratch.draws.back().row == scratch.draws[0].row &&
                  at.values.size() == scratch.draws[0].count;
  }
  return same_inputs;
}

// Moves `scratch.network` by these steps.
void MetaLearner::take_steps(std::span<const std::vector<Draw>> steps, const Histories& histories,
                             double rate, MetaScratch& scratch) const {
  const NetworkShape shape = scratch.inputs.shape(shape_);
  for (const std::vector<Draw>& draws : steps) {
    if (draws.empty()) {
      continue;
    }
    if (shape.depth == 2 && prepare_draws(draws, histories, rate, nullptr, scratch)) {
      kernels::batch_step(shape, scratch.network.data(), scratch.draws, scratch.kernel_memory);
    } else {
      take_step(shape, draws, histories, rate, scratch);
    }
  }
}

// All gradients of a step are taken where the step begins. So either the gradients are kept until
// all are known, or the network is copied, whichever needs less memory.
void MetaLearner::take_step(const NetworkShape& shape, std::span<const Draw> draws,
                            const Histories& histories, double rate, MetaScratch& scratch) const {
  const auto sample_of = [&](const Draw& draw) {
    const Sample sample = histories.sample(draw.event);
    return Sample{scratch.inputs.renumbered(sample.features), sample.reward};
  };
  const auto add = [&](std::vector<float>& to, const Draw& draw, const GradientFactors& factors) {
    const Sample sample = sample_of(draw);
    scratch.note_reward(sample.reward);
    kernels::add_gradient(
        shape, to.data(), sample.features.values, sample.features.offset,
        factors.activations.data(), factors.signals.data(),
        static_cast<float>(-rate * draw.weight) * (factors.value - sample.reward));
  };
  const bool keep = 2 * draws.size() * shape.hidden_count() <= shape.parameter_count();
  std::vector<GradientFactors>& gradients = scratch.samples;
  gradients.resize(std::max(gradients.size(), keep ? draws.size() : 1));
  if (keep) {
    for (std::size_t i = 0; i < draws.size(); ++i) {
      find_gradient(shape, scratch.network, sample_of(draws[i]).features, gradients[i]);
    }
    for (std::size_t i = 0; i < draws.size(); ++i) {
      add(scratch.network, draws[i], gradients[i]);
    }
    return;
  }
  scratch.next_network = scratch.network;
  for (const Draw& draw : draws) {
    find_gradient(shape, scratch.network, sample_of(draw).features, gradients[0]);
    add(scratch.next_network, draw, gradients[0]);
  }
  scratch.network.swap(scratch.next_network);
}

// The last step of an adaptation with two layers. Leaves the gradient at x after the step in
// `scratch.adapted`.
void MetaLearner::take_last_step(const Network& network, const Features& x,
                                 std::span<const Draw> draws, const Histories& histories,
                                 double rate, MetaScratch& scratch) const {
  const NetworkShape& shape = network.shape;
  const std::size_t padded = shape.padded_width();
  prepare_draws(draws, histories, rate, &x, scratch);
  GradientFactors& adapted = scratch.adapted;
  adapted.features = x;
  std::vector<float>& sums = adapted.activations;  // W_1 x after the step, until the ReLU below
  std::vector<float>& last = adapted.signals;      // W_2 after the step, until the mask below
  sums.resize(padded);
  last.assign(padded, 0.0F);
  const float* w2 = network.parameters + shape.layer_offset(2);
  std::copy_n(w2, shape.width, last.data());
  kernels::first_layer(shape, network.parameters, x.values, scratch.inputs.number_of(x.offset),
                       sums.data());
  const float bias_step = kernels::adapt(shape, network.parameters, scratch.draws, sums.data(),
                                         last.data(), scratch.kernel_memory);
  look_at(shape, shape.biases ? w2[shape.width] + bias_step : 0.0F, adapted);
}

// Makes activations and signals of W_1 x and W_2, and finds the value.
void MetaLearner::look_at(const NetworkShape& shape, float last_bias, GradientFactors& adapted) {
  std::vector<float>& sums = adapted.activations;
  std::vector<float>& last = adapted.signals;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    last[i] = sums[i] > 0.0F ? last[i] : 0.0F;
    sums[i] = std::max(sums[i], 0.0F);
  }
  adapted.value = kernels::dot(sums.data(), last.data(), shape.width) + last_bias;
}

std::optional<AdaptedMeta> MetaLearner::adapted_from(const Features& x, std::span<const float> sums,
                                                     std::span<const float> last,
                                                     bool has_ordinary_rewards, double rate,
                                                     MetaScratch& scratch) const {
  check(shape_.depth == 2 && !shape_.biases, "a step computed elsewhere has two layers, no biases");
  scratch.has_ordinary_rewards = has_ordinary_rewards;
  GradientFactors& adapted = scratch.adapted;
  adapted.features = x;
  adapted.activations.assign(sums.begin(), sums.end());
  adapted.signals.assign(last.begin(), last.end());
  look_at(shape_, 0.0F, adapted);
  if (!went_as_usual(shape_, rate, scratch)) {
    return std::nullopt;
  }
  find_gradient(shape_, start_, x, scratch.start);
  return AdaptedMeta{adapted.value, gradient_distance(shape_, adapted, scratch.start)};
}

bool MetaLearner::accepts(const Features& x, std::span<const float> moved,
                          bool has_ordinary_rewards, double rate, MetaScratch& scratch) const {
  scratch.has_ordinary_rewards = has_ordinary_rewards;
  find_gradient(shape_, moved, x, scratch.adapted);
  return went_as_usual(shape_, rate, scratch) && is_ordinary(moved);
}

}  // namespace mcnb
