#include "mcnb/bandit/mcnb/meta_learner.h"

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::size_t kFetchAhead = 8;  // draws

// a . b of two feature vectors, of which only what overlaps counts.
float inner_product(const Features& a, const Features& b) {
  if (a.offset == b.offset && a.values.size() == b.values.size()) {
    return kernels::dot(a.values.data(), b.values.data(), a.values.size());
  }
  const std::size_t begin = std::max(a.offset, b.offset);
  const std::size_t end = std::min(a.offset + a.values.size(), b.offset + b.values.size());
  return begin >= end ? 0.0F
                      : kernels::dot(a.values.data() + (begin - a.offset),
                                     b.values.data() + (begin - b.offset), end - begin);
}

// Where an input lies among those that matter.
std::uint32_t place_of(std::uint32_t input, std::span<const InputRange> ranges) {
  if (ranges.empty()) {
    return input;
  }
  const auto after = std::ranges::upper_bound(ranges, input, {}, &InputRange::begin);
  const InputRange& range = *(after - 1);
  return range.place + (input - range.begin);
}

}  // namespace

MetaLearner::MetaLearner(const NetworkShape& shape, std::vector<float> start)
    : shape_(shape), start_(std::move(start)), parameters_(start_) {
  check(start_.size() == shape.parameter_count(), "the parameters match the network's shape");
}

// Lays the draws out for the kernels. Returns whether all lie in one block.
bool MetaLearner::gather(std::span<const Draw> draws, const Histories& histories, double rate,
                         const Features* x, MetaScratch& scratch) const {
  scratch.draws.clear();
  bool one_block = true;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const Draw& draw = draws[i];
    histories.fetch(draws[std::min(i + kFetchAhead, draws.size() - 1)].event);
    const Sample sample = histories.sample(draw.event);
    const Features& at = sample.features;
    const float bias = shape_.biases ? 1.0F : 0.0F;
    scratch.draws.push_back({.x = at.values.data(),
                             .count = static_cast<std::uint32_t>(at.values.size()),
                             .row = place_of(at.offset, scratch.ranges),
                             .reward = sample.reward,
                             .factor = static_cast<float>(-rate * draw.weight),
                             .inner = x == nullptr ? 0.0F : inner_product(at, *x) + bias});
    one_block = one_block && scratch.draws.back().row == scratch.draws[0].row &&
                at.values.size() == scratch.draws[0].count;
  }
  return one_block;
}

void MetaLearner::take_short_step(const NetworkShape& shape, const float* network,
                                  const Features& x, std::span<const Draw> draws,
                                  const Histories& histories, double rate,
                                  MetaScratch& scratch) const {
  const std::size_t padded = shape.padded_width();
  gather(draws, histories, rate, &x, scratch);
  GradientFactors& adapted = scratch.adapted;
  adapted.features = x;
  std::vector<float>& sums = adapted.activations;  // W_1' x, until the ReLU below
  std::vector<float>& last = adapted.signals;      // W_2', until the mask below
  sums.resize(padded);
  last.assign(padded, 0.0F);
  const float* w2 = network + shape.layer_offset(2);
  std::copy_n(w2, shape.width, last.data());
  kernels::first_layer(shape, network, x.values, place_of(x.offset, scratch.ranges), sums.data());
  const float bias_step =
      kernels::adapt(shape, network, scratch.draws, sums.data(), last.data(), scratch.room);
  for (std::size_t i = 0; i < padded; ++i) {
    last[i] = sums[i] > 0.0F ? last[i] : 0.0F;
    sums[i] = std::max(sums[i], 0.0F);
  }
  adapted.value = kernels::dot(sums.data(), last.data(), shape.width) +
                  (shape.biases ? w2[shape.width] + bias_step : 0.0F);
}

// Leaves Theta in `scratch.now`, of W_1 only the rows that x and the draws meet: an adaptation
// costs no more where these are blocks of long, mostly zero vectors. Returns the shape of the copy.
NetworkShape MetaLearner::copy_what_matters(const Features& x,
                                            std::span<const std::vector<Draw>> steps,
                                            const Histories& histories,
                                            MetaScratch& scratch) const {
  scratch.ranges.clear();
  if (x.values.size() == shape_.inputs) {
    scratch.now = parameters_;
    return shape_;
  }
  std::vector<InputRange>& ranges = scratch.ranges;
  const auto add = [&](const Features& features) {
    const auto count = static_cast<std::uint32_t>(features.values.size());
    ranges.push_back({features.offset, features.offset + count, 0});
  };
  add(x);
  for (const std::vector<Draw>& draws : steps) {
    for (const Draw& draw : draws) {
      add(histories.sample(draw.event).features);
    }
  }
  std::ranges::sort(ranges, {}, &InputRange::begin);
  std::size_t merged = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[merged].end) {
      ranges[merged].end = std::max(ranges[merged].end, ranges[i].end);
    } else {
      ranges[++merged] = ranges[i];
    }
  }
  ranges.resize(merged + 1);
  NetworkShape shape = shape_;
  shape.inputs = 0;
  scratch.now.clear();
  const auto copy = [&](std::size_t begin, std::size_t end) {
    scratch.now.insert(scratch.now.end(), parameters_.begin() + static_cast<std::ptrdiff_t>(begin),
                       parameters_.begin() + static_cast<std::ptrdiff_t>(end));
  };
  for (InputRange& range : ranges) {
    range.place = shape.inputs;
    shape.inputs += range.end - range.begin;
    copy(std::size_t{range.begin} * shape_.width, std::size_t{range.end} * shape_.width);
  }
  copy(std::size_t{shape_.inputs} * shape_.width, parameters_.size());
  return shape;
}

// All gradients of a step are taken where the step begins. They are kept until the step is made
// where that is less than a copy of the network (long block features, few draws).
void MetaLearner::walk(const NetworkShape& shape, std::vector<float>& network,
                       std::span<const std::vector<Draw>> steps, const Histories& histories,
                       double rate, MetaScratch& scratch) const {
  const auto sample_of = [&](const Draw& draw) {
    Sample sample = histories.sample(draw.event);
    sample.features.offset = place_of(sample.features.offset, scratch.ranges);
    return sample;
  };
  const auto add = [&](std::vector<float>& to, const Sample& sample, float weight,
                       const GradientFactors& factors) {
    kernels::add_gradient(shape, to.data(), sample.features.values, sample.features.offset,
                          factors.activations.data(), factors.signals.data(),
                          static_cast<float>(-rate * weight) * (factors.value - sample.reward));
  };
  for (const std::vector<Draw>& draws : steps) {
    if (draws.empty()) {
      continue;
    }
    if (shape.depth == 2 && gather(draws, histories, rate, nullptr, scratch)) {
      kernels::batch_step(shape, network.data(), scratch.draws, scratch.room);
      continue;
    }
    const bool keep = 2 * draws.size() * shape.hidden_count() <= shape.parameter_count();
    if (scratch.samples.size() < (keep ? draws.size() : 1)) {
      scratch.samples.resize(keep ? draws.size() : 1);
    }
    if (keep) {
      for (std::size_t i = 0; i < draws.size(); ++i) {
        find_gradient(shape, network, sample_of(draws[i]).features, scratch.samples[i]);
      }
      for (std::size_t i = 0; i < draws.size(); ++i) {
        add(network, sample_of(draws[i]), draws[i].weight, scratch.samples[i]);
      }
    } else {
      scratch.next = network;
      for (const Draw& draw : draws) {
        const Sample sample = sample_of(draw);
        find_gradient(shape, network, sample.features, scratch.samples[0]);
        add(scratch.next, sample, draw.weight, scratch.samples[0]);
      }
      network.swap(scratch.next);
    }
  }
}

AdaptedMeta MetaLearner::seen_from(const Features& x, std::span<const std::vector<Draw>> steps,
                                   const Histories& histories, double rate,
                                   MetaScratch& scratch) const {
  check(!steps.empty(), "an adaptation has a step");
  if (shape_.depth == 2 && steps.size() == 1) {
    scratch.ranges.clear();
    take_short_step(shape_, parameters_.data(), x, steps[0], histories, rate, scratch);
  } else if (const NetworkShape shape = copy_what_matters(x, steps, histories, scratch);
             shape_.depth == 2) {
    walk(shape, scratch.now, steps.first(steps.size() - 1), histories, rate, scratch);
    take_short_step(shape, scratch.now.data(), x, steps.back(), histories, rate, scratch);
  } else {
    walk(shape, scratch.now, steps, histories, rate, scratch);
    const Features moved{x.values, place_of(x.offset, scratch.ranges)};
    find_gradient(shape, scratch.now, moved, scratch.adapted);
    scratch.adapted.features = x;
  }
  find_gradient(shape_, start_, x, scratch.start);
  return {scratch.adapted.value, gradient_distance(shape_, scratch.adapted, scratch.start)};
}

bool MetaLearner::adapt(std::span<const std::vector<Draw>> steps, const Histories& histories,
                        double rate, MetaScratch& scratch) {
  if (std::ranges::all_of(steps, &std::vector<Draw>::empty)) {
    return true;
  }
  const auto first = std::ranges::find_if_not(steps, &std::vector<Draw>::empty);
  const Features any = histories.sample(first->front().event).features;
  const NetworkShape shape = copy_what_matters(any, steps, histories, scratch);
  walk(shape, scratch.now, steps, histories, rate, scratch);
  if (!all_finite(scratch.now)) {
    return false;
  }
  if (scratch.ranges.empty()) {  // it is all of Theta
    // Copied, not swapped: others may look at where they are.
    std::ranges::copy(scratch.now, parameters_.begin());
    return true;
  }
  auto from = scratch.now.cbegin();
  const auto put_back = [&](std::size_t begin, std::size_t end) {
    const auto count = static_cast<std::ptrdiff_t>(end - begin);
    std::copy_n(from, count, parameters_.begin() + static_cast<std::ptrdiff_t>(begin));
    from += count;
  };
  for (const InputRange& range : scratch.ranges) {
    put_back(std::size_t{range.begin} * shape_.width, std::size_t{range.end} * shape_.width);
  }
  put_back(std::size_t{shape_.inputs} * shape_.width, parameters_.size());
  return true;
}

}  // namespace mcnb
