// The adaptation of a network with two layers in the space of its draws. A step of gradient descent
// adds multiples of g_i x_i^T to W_1, where x_i is a draw of the step. So W_1 x of any x, during
// the adaptation, is W_1 x of the beginning plus the sum over the draws of (x_i . x) g_i. No row of
// W_1 is copied or changed, and draws of another block, whose x_i . x is zero, cost nothing.
#include <algorithm>

#include "mcnb/bandit/mcnb/meta_learner.h"

namespace mcnb {
namespace {

constexpr std::size_t kFewestFeatures = 64;  // fewer cost so little that it is not worth a look

// Prefetches values that will soon be read.
void fetch(std::span<const float> values) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < values.size(); i += kLine) {
    __builtin_prefetch(values.data() + i);
  }
}

bool overlap(const Features& a, const Features& b) {
  return a.offset < b.offset + b.values.size() && b.offset < a.offset + a.values.size();
}

}  // namespace

// Compares the multiplications of the two ways. Draws of different blocks count as not overlapping.
bool MetaLearner::is_cheaper_implicitly(const Features& x, std::span<const std::vector<Draw>> steps,
                                        const Histories& histories, MetaScratch& scratch) const {
  if (shape_.depth != 2 || x.values.size() < kFewestFeatures ||
      bookkeeping_ != Bookkeeping::kBySize) {
    return shape_.depth == 2 && bookkeeping_ == Bookkeeping::kImplicit;
  }
  const std::size_t width = shape_.width;
  std::vector<std::uint32_t>& blocks = scratch.blocks;
  blocks.clear();
  const bool keeps = keeps_sums_ && is_long(x);
  std::size_t explicitly = 0;
  std::size_t implicitly = 0;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const bool changes_network = step + 1 < steps.size();
    for (const Draw& draw : steps[step]) {
      const Features& at = histories.sample(draw.event).features;
      blocks.push_back(at.offset);
      explicitly += (changes_network ? 2 : 1) * at.values.size() * width;
      implicitly += 3 * width + (keeps ? 0 : at.values.size() * width);
    }
  }
  std::ranges::sort(blocks);
  for (std::size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    while (end < blocks.size() && blocks[end] == blocks[begin]) {
      ++end;
    }
    // Of each pair of a block that is not in the same step, the later draw sees the earlier one.
    const std::size_t pairs =
        (end - begin) * (end - begin) * (steps.size() - 1) / (2 * steps.size());
    implicitly += pairs * (x.values.size() + width);
  }
  return implicitly < explicitly;
}

// Leaves the gradient at x after these steps in `scratch.adapted`.
void MetaLearner::adapt_implicitly(const Features& x, std::span<const std::vector<Draw>> steps,
                                   const Histories& histories, double rate,
                                   MetaScratch& scratch) const {
  const std::size_t padded = shape_.padded_width();
  std::size_t count = 0;
  std::size_t longest = 0;
  for (const std::vector<Draw>& draws : steps) {
    count += draws.size();
    longest = std::max(longest, draws.size());
  }
  scratch.moves.resize(count * padded);
  scratch.sums.resize(longest * padded);
  scratch.bias_moves.assign(shape_.biases ? padded : 0, 0.0F);
  GradientFactors& adapted = scratch.adapted;
  adapted.features = x;
  const float* w2 = parameters_.data() + shape_.layer_offset(2);
  adapted.signals.assign(padded, 0.0F);  // W_2 so far, until the mask below
  std::copy_n(w2, shape_.width, adapted.signals.data());
  kernels::ImplicitNetwork network{.last = adapted.signals.data(),
                                   .biases = shape_.biases ? scratch.bias_moves.data() : nullptr,
                                   .last_bias = shape_.biases ? w2[shape_.width] : 0.0F};
  scratch.features.clear();
  for (const std::vector<Draw>& draws : steps) {
    const std::size_t before = scratch.features.size();
    prepare_implicit_draws(draws, histories, rate, scratch);
    kernels::implicit_step(padded, scratch.implicit_draws, network,
                           scratch.moves.data() + before * padded, scratch.kernel_memory);
  }
  std::vector<float>& sums = adapted.activations;  // W_1 x, until the ReLU below
  sums.resize(padded);
  first_sums(x, sums.data());
  scratch.earlier.clear();
  add_earlier(x, scratch.features.size(), scratch);
  kernels::add_moves(padded, scratch.earlier, sums.data());
  for (std::size_t i = 0; i < padded; ++i) {
    sums[i] += shape_.biases ? scratch.bias_moves[i] : 0.0F;
    adapted.signals[i] = sums[i] > 0.0F ? adapted.signals[i] : 0.0F;
    sums[i] = std::max(sums[i], 0.0F);
  }
  adapted.value =
      kernels::dot(sums.data(), adapted.signals.data(), shape_.width) + network.last_bias;
}

// Fills `scratch.implicit_draws`, the form that the kernel reads, and appends the features of the
// draws to `scratch.features`, which has those of the steps before.
void MetaLearner::prepare_implicit_draws(std::span<const Draw> draws, const Histories& histories,
                                         double rate, MetaScratch& scratch) const {
  const std::size_t before = scratch.features.size();
  const std::size_t padded = shape_.padded_width();
  scratch.earlier.clear();
  scratch.ends.clear();
  scratch.implicit_draws.clear();
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const Sample sample = histories.sample(draws[i].event);
    if (i + 1 < draws.size()) {
      fetch(histories.sample(draws[i + 1].event).features.values);
    }
    scratch.note_reward(sample.reward);
    scratch.features.push_back(sample.features);
    add_earlier(sample.features, before, scratch);
    scratch.ends.push_back(scratch.earlier.size());
    const float* sums = sums_.find(draws[i].event, scratch.sums.data() + i * padded,
                                   [&](float* room) { first_sums(sample.features, room); });
    scratch.implicit_draws.push_back({.sums = sums,
                                      .earlier = {},
                                      .reward = sample.reward,
                                      .factor = static_cast<float>(-rate * draws[i].weight)});
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    scratch.implicit_draws[i].earlier =
        std::span(scratch.earlier).subspan(begin, scratch.ends[i] - begin);
    begin = scratch.ends[i];
  }
}

// Appends those of the first `count` draws that x sees to `scratch.earlier`.
void MetaLearner::add_earlier(const Features& x, std::size_t count, MetaScratch& scratch) const {
  const std::size_t padded = shape_.padded_width();
  for (std::size_t i = 0; i < count; ++i) {
    if (overlap(scratch.features[i], x)) {
      scratch.earlier.push_back(
          {scratch.moves.data() + i * padded, inner_product(scratch.features[i], x)});
    }
  }
}

void MetaLearner::first_sums(const Features& x, float* sums) const {
  kernels::first_layer(shape_, parameters_.data(), x.values, x.offset, sums);
}

}  // namespace mcnb
