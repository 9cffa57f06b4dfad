#include "mcnb/numeric/kernels.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/kernels.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/aligned_allocator.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kSumLanes = 16;  // of every long sum, on every instruction set
using Tag = hn::CappedTag<float, kSumLanes>;
using Vector = hn::Vec<Tag>;
constexpr std::size_t kLanes = HWY_MIN(HWY_LANES(float), kSumLanes);
constexpr bool kManyRegisters = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;
constexpr bool kMaskedMemory = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;

// Sums kept in registers: arms x vectors of hidden units.
constexpr std::size_t kAccumulators = kManyRegisters ? 24 : 12;
constexpr std::size_t kMaxTileArms = kAccumulators / 2;
constexpr std::size_t unit_vectors(std::size_t arms) {
  return std::clamp<std::size_t>(kAccumulators / arms, 2, 8);
}

constexpr std::size_t round_up_to_four(std::size_t count) { return (count + 3) / 4 * 4; }

constexpr std::size_t kPrefetchedParameters = 16'384;  // 64 KiB
constexpr std::size_t kCachedParameters = 65'536;      // 256 KiB

// The first `count` <= kLanes floats, zero behind them.
HWY_INLINE Vector load_first(const float* from, std::size_t count) {
  const Tag tag;
  if constexpr (kMaskedMemory) {
    return hn::MaskedLoad(hn::FirstN(tag, count), tag, from);
  } else {
    alignas(64) float copy[kLanes] = {};
    std::memcpy(copy, from, count * sizeof(float));
    return hn::Load(tag, copy);
  }
}

HWY_INLINE void store_first(Vector vector, float* to, std::size_t count) {
  const Tag tag;
  if constexpr (kMaskedMemory) {
    hn::BlendedStore(vector, hn::FirstN(tag, count), tag, to);
  } else {
    alignas(64) float copy[kLanes];
    hn::Store(vector, tag, copy);
    std::memcpy(to, copy, count * sizeof(float));
  }
}

template <bool kTail>
HWY_INLINE Vector load_part(const float* from, std::size_t count) {
  if constexpr (kTail) {
    return load_first(from, count);
  } else {
    return hn::LoadU(Tag(), from);
  }
}

// The sum of sixteen lanes, always in this order.
HWY_INLINE float sum_lanes(const float* lanes) {
  float four[4];
  for (std::size_t i = 0; i < 4; ++i) {
    four[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 4] + lanes[i + 12]);
  }
  return (four[0] + four[2]) + (four[1] + four[3]);
}

#if HWY_TARGET == HWY_SCALAR
template <std::size_t kArms>
void sum_rows(const float (*lanes)[kSumLanes], float* sums) {
  for (std::size_t arm = 0; arm < kArms; ++arm) {
    sums[arm] = sum_lanes(lanes[arm]);
  }
}
#else
HWY_INLINE auto fold_to_four(const float* lanes) {
  const hn::FixedTag<float, 4> four;
  return hn::Add(hn::Add(hn::Load(four, lanes), hn::Load(four, lanes + 8)),
                 hn::Add(hn::Load(four, lanes + 4), hn::Load(four, lanes + 12)));
}

// sum_lanes of rows, four at a time: both arrays have room up to a multiple of four.
template <std::size_t kArms>
HWY_INLINE void sum_rows(const float (*lanes)[kSumLanes], float* sums) {
  const hn::FixedTag<float, 4> four;
  for (std::size_t arm = 0; arm < kArms; arm += 4) {
    const auto a = fold_to_four(lanes[arm]);
    const auto b = fold_to_four(lanes[arm + 1]);
    const auto c = fold_to_four(lanes[arm + 2]);
    const auto d = fold_to_four(lanes[arm + 3]);
    const auto ab = hn::Add(hn::ConcatLowerLower(four, b, a), hn::ConcatUpperUpper(four, b, a));
    const auto cd = hn::Add(hn::ConcatLowerLower(four, d, c), hn::ConcatUpperUpper(four, d, c));
    hn::Store(hn::Add(hn::ConcatEven(four, cd, ab), hn::ConcatOdd(four, cd, ab)), four, sums + arm);
  }
}
#endif

// One layer as seen by the loops below.
struct Layer {
  const float* weights;  // first row that the inputs meet
  const float* bias;     // or null
  std::size_t inputs;
  std::size_t outputs;
  std::ptrdiff_t prefetch;  // from these weights to those that are needed next, in floats
};

// sums[arm][r] = W_l x for kArms inputs and kVectors vectors of outputs that begin at `output`.
// With kTail the last vector has only `tail` lanes.
template <std::size_t kArms, std::size_t kVectors, bool kTail>
HWY_INLINE void multiply(const Layer& layer, const float* HWY_RESTRICT x, std::size_t output,
                         std::size_t tail, Vector (&sums)[kArms][kVectors]) {
  const Tag tag;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kVectors; ++r) {
    const bool last = r + 1 == kVectors;
    Vector start = hn::Zero(tag);
    if (layer.bias != nullptr) {
      const float* bias = layer.bias + output + r * kLanes;
      start = last ? load_part<kTail>(bias, tail) : hn::LoadU(tag, bias);
    }
#pragma GCC unroll 16
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      sums[arm][r] = start;
    }
  }
  const float* HWY_RESTRICT row = layer.weights + output;
  for (std::size_t input = 0; input < layer.inputs; ++input) {
    Vector weights[kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      const float* from = row + r * kLanes;
      weights[r] = r + 1 == kVectors ? load_part<kTail>(from, tail) : hn::LoadU(tag, from);
      if (r * kLanes % 16 == 0) {
        hwy::Prefetch(from + layer.prefetch);
      }
    }
#pragma GCC unroll 16
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      const Vector broadcast = hn::Set(tag, x[arm]);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        sums[arm][r] = hn::MulAdd(weights[r], broadcast, sums[arm][r]);
      }
    }
    x += kArms;
    row += layer.outputs;
  }
}

// What becomes of a hidden layer: it is stored ...
struct StoreUnits {
  float* units;  // [arm][stride]
  std::size_t stride;

  template <std::size_t kArms, std::size_t kVectors, bool kTail>
  HWY_INLINE void take(const Vector (&sums)[kArms][kVectors], std::size_t output, std::size_t) {
    const Tag tag;
#pragma GCC unroll 16
    for (std::size_t arm = 0; arm < kArms; ++arm) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        hn::StoreU(hn::Max(sums[arm][r], hn::Zero(tag)), tag,
                   units + arm * stride + output + r * kLanes);
      }
    }
  }
};

// ... or, being the last one, multiplied with W_L at once and never stored.
template <std::size_t kSums>
struct MultiplyOut {
  const float* weights;
  float (*lanes)[kSumLanes];

  template <std::size_t kArms, std::size_t kVectors, bool kTail>
  HWY_INLINE void take(const Vector (&sums)[kArms][kVectors], std::size_t output,
                       std::size_t tail) {
    const Tag tag;
    Vector w[kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      const float* from = weights + output + r * kLanes;
      w[r] = r + 1 == kVectors ? load_part<kTail>(from, tail) : hn::LoadU(tag, from);
    }
#pragma GCC unroll 16
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      if constexpr (kLanes == kSumLanes) {
        Vector sum = hn::Load(tag, lanes[arm]);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kVectors; ++r) {
          sum = hn::MulAdd(hn::Max(sums[arm][r], hn::Zero(tag)), w[r], sum);
        }
        hn::Store(sum, tag, lanes[arm]);
      } else {
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kVectors; ++r) {
          float* sum = lanes[arm] + (output + r * kLanes) % kSumLanes;
          hn::Store(hn::MulAdd(hn::Max(sums[arm][r], hn::Zero(tag)), w[r], hn::Load(tag, sum)), tag,
                    sum);
        }
      }
    }
  }
};

template <std::size_t kArms, std::size_t kVectors, bool kTail, class Sink>
HWY_INLINE void layer_step(const Layer& layer, const float* x, std::size_t output,
                           std::size_t tail, Sink& sink) {
  Vector sums[kArms][kVectors];
  multiply<kArms, kVectors, kTail>(layer, x, output, tail, sums);
  sink.template take<kArms, kVectors, kTail>(sums, output, tail);
}

// The last step: 1 .. kVectors vectors are left, the last of them perhaps not whole.
template <std::size_t kArms, std::size_t kVectors, class Sink>
HWY_INLINE void last_layer_step(const Layer& layer, const float* x, std::size_t output,
                                std::size_t left, std::size_t tail, Sink& sink) {
  if (left == kVectors) {
    layer_step<kArms, kVectors, true>(layer, x, output, tail, sink);
  } else if constexpr (kVectors > 1) {
    last_layer_step<kArms, kVectors - 1>(layer, x, output, left, tail, sink);
  }
}

// Runs x (packed [input][arm]) through one hidden layer into the sink.
template <std::size_t kArms, class Sink>
HWY_INLINE void hidden_layer(const Layer& layer, const float* x, Sink& sink) {
  constexpr std::size_t kVectors = unit_vectors(kArms);
  std::size_t left = (layer.outputs + kLanes - 1) / kLanes;
  const std::size_t tail = layer.outputs - (left - 1) * kLanes;
  std::size_t output = 0;
  for (; left > kVectors || (left == kVectors && tail == kLanes); left -= kVectors) {
    layer_step<kArms, kVectors, false>(layer, x, output, kLanes, sink);
    output += kVectors * kLanes;
  }
  if (left > 0) {
    last_layer_step<kArms, kVectors>(layer, x, output, left, tail, sink);
  }
}

Layer layer_of(const NetworkShape& shape, const float* network, std::uint32_t number,
               std::size_t row, std::size_t inputs, std::ptrdiff_t prefetch) {
  const float* weights = network + shape.layer_offset(number);
  return {.weights = weights + row * shape.width,
          .bias = shape.biases ? weights + shape.layer_inputs(number) * shape.width : nullptr,
          .inputs = inputs,
          .outputs = shape.width,
          .prefetch = prefetch};
}

// Room for the hidden layers between the first and the last; empty for depth 2.
struct DeepScratch {
  std::vector<float> units;   // [arm][padded width], as a layer leaves them
  std::vector<float> packed;  // [unit][arm], as the next one takes them
};

template <std::size_t kArms>
HWY_INLINE void predict_one(const NetworkShape& shape, const ArmTile& tile, const float* network,
                            std::ptrdiff_t prefetch, DeepScratch& scratch, float* results) {
  const float* x = tile.values.data();
  Layer layer = layer_of(shape, network, 1, tile.row, tile.columns, prefetch);
  for (std::uint32_t number = 2; number < shape.depth; ++number) {
    StoreUnits store{scratch.units.data(), shape.padded_width()};
    hidden_layer<kArms>(layer, x, store);
    for (std::size_t unit = 0; unit < shape.width; ++unit) {
      for (std::size_t arm = 0; arm < kArms; ++arm) {
        scratch.packed[unit * kArms + arm] = scratch.units[arm * shape.padded_width() + unit];
      }
    }
    x = scratch.packed.data();
    layer = layer_of(shape, network, number, 0, shape.width, prefetch);
  }
  alignas(64) float lanes[round_up_to_four(kArms)][kSumLanes] = {};
  const float* last = network + shape.layer_offset(shape.depth);
  MultiplyOut<kArms> multiply_out{last, lanes};
  hidden_layer<kArms>(layer, x, multiply_out);
  sum_rows<kArms>(lanes, results);
  if (shape.biases) {
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      results[arm] += last[shape.width];
    }
  }
}

template <std::size_t kArms>
void predict_tile(const NetworkShape& shape, const ArmTile& tile,
                  std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  DeepScratch scratch;
  if (shape.depth > 2) {
    scratch.units.resize(kArms * shape.padded_width());
    scratch.packed.resize(kArms * shape.width);
  }
  // Small networks lie one behind the other and each is read in rows: hide the way to memory by
  // asking for the next one's rows early. Rows of large ones are long streams of their own.
  const bool small = shape.parameter_count() <= kPrefetchedParameters;
  alignas(64) float results[round_up_to_four(kArms)];
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const float* next = targets[std::min(i + 1, targets.size() - 1)].network;
    predict_one<kArms>(shape, tile, targets[i].network, small ? next - targets[i].network : 0,
                       scratch, results);
    float* to = out + tile.first_arm * stride + targets[i].column;
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      to[arm * stride] = results[arm];
    }
  }
}

template <std::size_t kArms>
void choose_tile_size(const NetworkShape& shape, const ArmTile& tile,
                      std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  if (tile.arms == kArms) {
    predict_tile<kArms>(shape, tile, targets, out, stride);
  } else if constexpr (kArms < kMaxTileArms) {
    choose_tile_size<kArms + 1>(shape, tile, targets, out, stride);
  }
}

void Predict(const NetworkShape& shape, std::span<const ArmTile> tiles,
             std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  // A few networks at a time, so that they are still in the cache for the next tile.
  const std::size_t at_once =
      tiles.size() == 1 ? targets.size()
                        : std::max<std::size_t>(1, kCachedParameters / shape.parameter_count());
  for (std::size_t begin = 0; begin < targets.size(); begin += at_once) {
    const auto some = targets.subspan(begin, std::min(at_once, targets.size() - begin));
    for (const ArmTile& tile : tiles) {
      choose_tile_size<1>(shape, tile, some, out, stride);
    }
  }
}

std::size_t MaxTileArms() { return kMaxTileArms; }

float Dot(const float* a, const float* b, std::size_t count) {
  const Tag tag;
  alignas(64) float lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float* sum = lanes + i % kSumLanes;
    hn::Store(hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), hn::Load(tag, sum)), tag,
              sum);
  }
  if (i < count) {
    float* sum = lanes + i % kSumLanes;
    hn::Store(
        hn::MulAdd(load_first(a + i, count - i), load_first(b + i, count - i), hn::Load(tag, sum)),
        tag, sum);
  }
  return sum_lanes(lanes);
}

HWY_INLINE float forward_one(const NetworkShape& shape, const float* network,
                             std::span<const float> x, std::uint32_t row,
                             std::ptrdiff_t prefetch, float* activations) {
  Layer layer = layer_of(shape, network, 1, row, x.size(), prefetch);
  const float* input = x.data();
  float* units = activations;
  for (std::uint32_t number = 1;; ++number) {
    StoreUnits store{units, 0};
    hidden_layer<1>(layer, input, store);
    if (number + 1 == shape.depth) {
      break;
    }
    layer = layer_of(shape, network, number + 1, 0, shape.width, prefetch);
    input = units;
    units += shape.padded_width();
  }
  const float* last = network + shape.layer_offset(shape.depth);
  const float value = Dot(units, last, shape.width);
  return shape.biases ? value + last[shape.width] : value;
}

float Forward(const NetworkShape& shape, const float* network, std::span<const float> x,
              std::uint32_t row, float* activations) {
  return forward_one(shape, network, x, row, 0, activations);
}

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
      signal[i] = units[i] > 0 ? Dot(weights + i * shape.width, above, shape.width) : 0.0F;
    }
  }
}

// to[j] += scale * from[j] for the `count` < kLanes columns that fill no vector. Narrow steps, since
// a masked store would hold up the loads of the next row, which begin inside its vector.
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
// and the `tail` columns behind them.
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
      float* place = rows + r * kLanes;
      hn::StoreU(hn::MulAdd(scales, s[r], hn::LoadU(tag, place)), tag, place);
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
                 std::uint32_t row, const float* activations, const float* signals,
                 float factor) {
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
    const float value =
        forward_one(shape, network, x, row, small ? next - network : 0, activations);
    Backward(shape, network, activations, signals);
    AddGradient(shape, network, x, row, activations, signals, -rate * (value - reward));
  }
}

template <class AnyTag>
HWY_INLINE void adam_vector(AnyTag tag, const AdamRow& row, std::size_t at) {
  const auto gradient = hn::Mul(hn::Set(tag, row.scale), hn::LoadU(tag, row.signals + at));
  auto first = hn::Mul(hn::Set(tag, 0.1F), gradient);
  auto second = hn::Mul(hn::Set(tag, 0.001F), hn::Mul(gradient, gradient));
  if (!row.first_touch) {
    first = hn::MulAdd(hn::Set(tag, 0.9F), hn::LoadU(tag, row.first_moments + at), first);
    second = hn::MulAdd(hn::Set(tag, 0.999F), hn::LoadU(tag, row.second_moments + at), second);
  }
  const auto scale = hn::MulAdd(hn::Sqrt(second), hn::Set(tag, row.second_correction),
                                hn::Set(tag, 1e-8F));
  hn::StoreU(first, tag, row.first_moments + at);
  hn::StoreU(second, tag, row.second_moments + at);
  hn::StoreU(hn::NegMulAdd(hn::Set(tag, row.step_size), hn::Div(first, scale),
                           hn::LoadU(tag, row.weights + at)),
             tag, row.weights + at);
}

void AdamUpdate(const AdamRow& row) {
  const hn::CappedTag<float, 4> few;
  const hn::CappedTag<float, 1> one;
  std::size_t at = 0;
  for (; at + kLanes <= row.count; at += kLanes) {
    adam_vector(Tag(), row, at);
  }
  for (; at + hn::Lanes(few) <= row.count; at += hn::Lanes(few)) {
    adam_vector(few, row, at);
  }
  for (; at < row.count; ++at) {
    adam_vector(one, row, at);
  }
}

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/core.h>

#include "mcnb/base/error.h"

namespace mcnb::kernels {

HWY_EXPORT(Predict);
HWY_EXPORT(MaxTileArms);
HWY_EXPORT(Forward);
HWY_EXPORT(Backward);
HWY_EXPORT(AddGradient);
HWY_EXPORT(SgdStep);
HWY_EXPORT(AdamUpdate);
HWY_EXPORT(Dot);

namespace {

struct SimdTarget {
  const char* name;
  std::int64_t bit;
};
constexpr SimdTarget kSimdTargets[] = {
    {"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}, {"plain", HWY_SCALAR}};

// What the machine can run, read before any one is forced.
std::int64_t supported_targets() {
  static const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  return supported;
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const SimdTarget& target : kSimdTargets) {
    if ((supported_targets() & target.bit) != 0) {
      names.emplace_back(target.name);
    }
  }
  return names;
}

std::string simd_target() {
  supported_targets();
  const std::int64_t allowed = hwy::SupportedTargets();
  for (const SimdTarget& target : kSimdTargets) {
    if ((allowed & HWY_TARGETS & target.bit) != 0) {
      return target.name;
    }
  }
  return "plain";
}

void use_simd_target(const std::string& name) {
  for (const SimdTarget& target : kSimdTargets) {
    if (name == target.name && (supported_targets() & target.bit) != 0) {
      hwy::SetSupportedTargetsForTest(target.bit);
      hwy::GetChosenTarget().Update(target.bit);
      return;
    }
  }
  std::string known;
  for (const std::string& target : simd_targets()) {
    known += (known.empty() ? "" : ", ") + target;
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("SIMD target: expected one of {} on this machine, got \"{}\"", known,
                          name));
}

std::size_t max_tile_arms() { return HWY_DYNAMIC_DISPATCH(MaxTileArms)(); }

void predict(const NetworkShape& shape, std::span<const ArmTile> tiles,
             std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(Predict)(shape, tiles, targets, out, stride);
}

float forward(const NetworkShape& shape, const float* network, std::span<const float> x,
              std::uint32_t row, float* activations) {
  return HWY_DYNAMIC_DISPATCH(Forward)(shape, network, x, row, activations);
}

void backward(const NetworkShape& shape, const float* network, const float* activations,
              float* signals) {
  HWY_DYNAMIC_DISPATCH(Backward)(shape, network, activations, signals);
}

void add_gradient(const NetworkShape& shape, float* network, std::span<const float> x,
                  std::uint32_t row, const float* activations, const float* signals,
                  float factor) {
  HWY_DYNAMIC_DISPATCH(AddGradient)(shape, network, x, row, activations, signals, factor);
}

void sgd_step(const NetworkShape& shape, std::span<float* const> networks, std::span<const float> x,
              std::uint32_t row, float reward, float rate) {
  HWY_DYNAMIC_DISPATCH(SgdStep)(shape, networks, x, row, reward, rate);
}

void adam_update(const AdamRow& row) { HWY_DYNAMIC_DISPATCH(AdamUpdate)(row); }

float dot(const float* a, const float* b, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(Dot)(a, b, count);
}

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
