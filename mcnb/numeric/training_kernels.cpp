#include "mcnb/numeric/kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/training_kernels.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>

#include "mcnb/numeric/kernels.inc"

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

void Backward(const NetworkShape& shape, const float* network, const float* activations,
              float* signals) {
  const Tag tag;
  const std::size_t padded = shape.padded_width();
  const float* units = activations + (shape.depth - 2) * padded;
  float* signal = signals + (shape.depth - 2) * padded;
  const float* last = network + shape.layer_offset(shape.depth);
  for (std::size_t i = 0; i < shape.width; i += kLanes) {
    const Vector w = load_first(last + i, std::min(kLanes, shape.width - i));
    const auto active = hn::Gt(hn::LoadU(tag, units + i), hn::Zero(tag));
    hn::StoreU(hn::IfThenElseZero(active, w), tag, signal + i);
  }
  for (std::uint32_t number = shape.depth - 1; number > 1; --number) {
    const float* weights = network + shape.layer_offset(number);
    const float* above = signal;
    units -= padded;
    signal -= padded;
    std::fill(signal + shape.width, signal + padded, 0.0F);
    for (std::size_t i = 0; i < shape.width; ++i) {
      signal[i] = units[i] > 0 ? dot_product(weights + i * shape.width, above, shape.width) : 0.0F;
    }
  }
}

// to[j] += scale * from[j] for the last `count` < kLanes columns. Uses narrow steps, since a masked
// store would delay the loads of the next row, which begin inside its vector.
HWY_INLINE void add_tail(float* to, const float* from, float scale, std::size_t count) {
  const hn::CappedTag<float, 4> few;
  const hn::CappedTag<float, 1> one;
  std::size_t j = 0;
  for (; j + hn::Lanes(few) <= count; j += hn::Lanes(few)) {
    hn::StoreU(hn::MulAdd(hn::Set(few, scale), hn::LoadU(few, from + j), hn::LoadU(few, to + j)),
               few, to + j);
  }
  for (; j < count; ++j) {
    hn::StoreU(hn::MulAdd(hn::Set(one, scale), hn::LoadU(one, from + j), hn::LoadU(one, to + j)),
               one, to + j);
  }
}

// rows[i] += factor * inputs[i] * signal, for kVectors whole vectors of columns, held in registers,
// and the `tail` columns after them.
template <std::size_t kVectors>
HWY_INLINE void add_outer(float* rows, std::size_t stride, const float* inputs, std::size_t count,
                          const float* signal, float factor, std::size_t tail) {
  const Tag tag;
  Vector s[kVectors + 1];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kVectors; ++r) {
    s[r] = hn::LoadU(tag, signal + r * kLanes);
  }
  for (std::size_t i = 0; i < count; ++i, rows += stride) {
    if (inputs[i] == 0.0F) {
      continue;
    }
    const float scale = factor * inputs[i];
    const Vector scales = hn::Set(tag, scale);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      float* target = rows + r * kLanes;
      hn::StoreU(hn::MulAdd(scales, s[r], hn::LoadU(tag, target)), tag, target);
    }
    add_tail(rows + kVectors * kLanes, signal + kVectors * kLanes, scale, tail);
  }
}

template <std::size_t kVectors>
HWY_INLINE void choose_outer(float* rows, std::size_t stride, const float* inputs,
                             std::size_t count, const float* signal, float factor,
                             std::size_t vectors, std::size_t tail) {
  if (vectors == kVectors) {
    add_outer<kVectors>(rows, stride, inputs, count, signal, factor, tail);
  } else if constexpr (kVectors > 0) {
    choose_outer<kVectors - 1>(rows, stride, inputs, count, signal, factor, vectors, tail);
  }
}

// rows[i][j] += factor * inputs[i] * signal[j].
HWY_INLINE void add_outer_product(float* rows, std::size_t width, const float* inputs,
                                  std::size_t count, const float* signal, float factor) {
  constexpr std::size_t kVectors = 8;
  for (std::size_t column = 0; column < width; column += kVectors * kLanes) {
    const std::size_t left = std::min(width - column, kVectors * kLanes);
    choose_outer<kVectors>(rows + column, width, inputs, count, signal + column, factor,
                           left / kLanes, left % kLanes);
  }
}

void AddGradient(const NetworkShape& shape, float* network, std::span<const float> x,
                 std::uint32_t row, const float* activations, const float* signals, float factor) {
  const float one = 1.0F;
  const std::size_t padded = shape.padded_width();
  const float* input = x.data();
  std::size_t inputs = x.size();
  float* weights = network;
  std::size_t first_row = row;
  for (std::uint32_t number = 1; number < shape.depth; ++number) {
    const float* signal = signals + (number - 1) * padded;
    add_outer_product(weights + first_row * shape.width, shape.width, input, inputs, signal,
                      factor);
    if (shape.biases) {
      add_outer_product(weights + shape.layer_inputs(number) * shape.width, shape.width, &one, 1,
                        signal, factor);
    }
    input = activations + (number - 1) * padded;
    inputs = shape.width;
    first_row = 0;
    weights = network + shape.layer_offset(number + 1);
  }
  // W_L: a single output, whose signal is 1.
  add_outer_product(weights, shape.width, &one, 1, input, factor);
  if (shape.biases) {
    weights[shape.width] += factor;
  }
}

void SgdStep(const NetworkShape& shape, std::span<float* const> networks, std::span<const float> x,
             std::uint32_t row, float reward, float rate) {
  hwy::AlignedFreeUniquePtr<float[]> room =
      hwy::AllocateAligned<float>(2 * shape.hidden_count() + kSumLanes);
  float* activations = room.get();
  float* signals = activations + shape.hidden_count();
  const bool small = shape.parameter_count() <= kPrefetchedParameters;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    float* network = networks[i];
    const float* next = networks[std::min(i + 1, networks.size() - 1)];
    const float* ahead = small ? next : network + std::size_t{row} * shape.width;
    const float value = forward_one(shape, network, x, row, ahead, activations);
    Backward(shape, network, activations, signals);
    AddGradient(shape, network, x, row, activations, signals, -rate * (value - reward));
  }
}

template <bool kFirstTouch, class AnyTag>
HWY_INLINE void adam_vector(AnyTag tag, const AdamRow& row, std::size_t at) {
  const auto gradient = hn::Mul(hn::Set(tag, row.scale), hn::LoadU(tag, row.signals + at));
  auto first = hn::Mul(hn::Set(tag, 0.1F), gradient);
  auto second = hn::Mul(hn::Set(tag, 0.001F), hn::Mul(gradient, gradient));
  if constexpr (!kFirstTouch) {
    first = hn::MulAdd(hn::Set(tag, 0.9F), hn::LoadU(tag, row.first_moments + at), first);
    second = hn::MulAdd(hn::Set(tag, 0.999F), hn::LoadU(tag, row.second_moments + at), second);
  }
  const auto scale =
      hn::MulAdd(hn::Sqrt(second), hn::Set(tag, row.second_correction), hn::Set(tag, 1e-8F));
  hn::StoreU(first, tag, row.first_moments + at);
  hn::StoreU(second, tag, row.second_moments + at);
  hn::StoreU(hn::NegMulAdd(hn::Set(tag, row.step_size), hn::Div(first, scale),
                           hn::LoadU(tag, row.weights + at)),
             tag, row.weights + at);
}

template <bool kFirstTouch>
HWY_INLINE void adam_row(AdamRow row) {
  const hn::CappedTag<float, 4> few;
  const hn::CappedTag<float, 1> one;
  std::size_t at = 0;
  for (; at + kLanes <= row.count; at += kLanes) {
    adam_vector<kFirstTouch>(Tag(), row, at);
  }
  for (; at + hn::Lanes(few) <= row.count; at += hn::Lanes(few)) {
    adam_vector<kFirstTouch>(few, row, at);
  }
  for (; at < row.count; ++at) {
    adam_vector<kFirstTouch>(one, row, at);
  }
}

HWY_INLINE void update_row(AdamRow row) {
  if (row.first_touch) {
    adam_row<true>(row);
  } else {
    adam_row<false>(row);
  }
}

void AdamUpdate(const AdamRow& row) { update_row(row); }

void AdamUpdateRows(const AdamRows& given) {
  const AdamRows rows = given;  // stores of weights cannot change a copy
  for (std::size_t i = 0; i < rows.inputs.size(); ++i) {
    const float scale = rows.error * rows.inputs[i];
    const std::uint32_t step = ++rows.steps[i];
    const bool first_touch = rows.has_moved[i] == 0;
    if (scale == 0.0F && first_touch) {
      continue;
    }
    rows.has_moved[i] = 1;
    float* moments = rows.moments + i * 2 * rows.padded;
    update_row({.weights = rows.weights + i * rows.width,
                .first_moments = moments,
                .second_moments = moments + rows.padded,
                .signals = rows.signals,
                .count = rows.width,
                .scale = scale,
                .step_size = rows.corrections[step].step_size,
                .second_correction = rows.corrections[step].second,
                .first_touch = first_touch});
  }
}

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mcnb::kernels {

HWY_EXPORT(Backward);
HWY_EXPORT(AddGradient);
HWY_EXPORT(SgdStep);
HWY_EXPORT(AdamUpdate);
HWY_EXPORT(AdamUpdateRows);

void backward(const NetworkShape& shape, const float* network, const float* activations,
              float* signals) {
  HWY_DYNAMIC_DISPATCH(Backward)(shape, network, activations, signals);
}

void add_gradient(const NetworkShape& shape, float* network, std::span<const float> x,
                  std::uint32_t row, const float* activations, const float* signals, float factor) {
  HWY_DYNAMIC_DISPATCH(AddGradient)(shape, network, x, row, activations, signals, factor);
}

void sgd_step(const NetworkShape& shape, std::span<float* const> networks, std::span<const float> x,
              std::uint32_t row, float reward, float rate) {
  HWY_DYNAMIC_DISPATCH(SgdStep)(shape, networks, x, row, reward, rate);
}

void adam_update(const AdamRow& row) { HWY_DYNAMIC_DISPATCH(AdamUpdate)(row); }

void adam_update_rows(const AdamRows& rows) { HWY_DYNAMIC_DISPATCH(AdamUpdateRows)(rows); }

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
