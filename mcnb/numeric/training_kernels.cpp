#include "mcnb/numeric/kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/training_kernels.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

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

// to[j] += scale * from[j] for the `count` < kLanes columns that fill no vector. Narrow steps,
// since a masked store would hold up the loads of the next row, which begin inside its vector.
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

template <class AnyTag>
HWY_INLINE void adam_vector(AnyTag tag, const AdamRow& row, std::size_t at) {
  const auto gradient = hn::Mul(hn::Set(tag, row.scale), hn::LoadU(tag, row.signals + at));
  auto first = hn::Mul(hn::Set(tag, 0.1F), gradient);
  auto second = hn::Mul(hn::Set(tag, 0.001F), hn::Mul(gradient, gradient));
  if (!row.first_touch) {
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

// Draws are taken a few at a time, so that what lies between stays in the first cache.
constexpr std::size_t kDrawsAtOnce = 32;
constexpr std::size_t kTileDraws = 8;

// Parts of the caller's memory.
struct DrawScratch {
  DrawScratch(const NetworkShape& shape, std::size_t longest, std::size_t rows,
              std::vector<float>& room)
      : padded(shape.padded_width()) {
    const std::size_t align = kSumLanes;
    const std::size_t features = (longest * kTileDraws + align - 1) / align * align;
    room.resize((2 * kDrawsAtOnce + 1 + rows) * padded + features + align);
    // Vectors begin at whole cache lines.
    const auto address = reinterpret_cast<std::uintptr_t>(room.data()) / sizeof(float);
    units = room.data() + (align - address % align) % align;
    signals = units + kDrawsAtOnce * padded;
    weights = signals + kDrawsAtOnce * padded;
    packed = weights + padded;
    moves = packed + features;
    // What lies behind the last vector of units is never written, but read.
    const std::size_t written = (shape.width + kLanes - 1) / kLanes * kLanes;
    for (std::size_t draw = 0; draw < kDrawsAtOnce; ++draw) {
      std::fill(units + draw * padded + written, units + (draw + 1) * padded, 0.0F);
    }
    std::fill(weights + shape.width, weights + padded, 0.0F);
    std::fill(moves, moves + rows * padded, 0.0F);
  }

  std::size_t padded;
  float* units;               // h_1 of each draw
  float* signals;             // step * b_1 of each draw
  float* weights;             // W_2, padded
  float* packed;              // features of a tile, [column][draw]
  float* moves;               // of `rows` rows of weights
  float steps[kDrawsAtOnce];  // factor * (f(x_j) - r_j)
};

std::size_t longest_draw(std::span<const AdaptationDraw> draws) {
  std::size_t longest = 0;
  for (const AdaptationDraw& draw : draws) {
    longest = std::max<std::size_t>(longest, draw.count);
  }
  return longest;
}

bool same_block(std::span<const AdaptationDraw> draws) {
  return std::all_of(draws.begin(), draws.end(), [&](const AdaptationDraw& draw) {
    return draw.row == draws[0].row && draw.count == draws[0].count;
  });
}

// Fills the units of draws from `j` on, kTile at a time, as long as they lie in one block.
template <std::size_t kTile>
HWY_INLINE void forward_tiles(const NetworkShape& shape, const float* network,
                              std::span<const AdaptationDraw> draws, std::size_t& j,
                              DrawScratch& scratch) {
  while (j + kTile <= draws.size() && same_block(draws.subspan(j, kTile))) {
    const std::size_t columns = draws[j].count;
    for (std::size_t draw = 0; draw < kTile; ++draw) {
      for (std::size_t column = 0; column < columns; ++column) {
        scratch.packed[column * kTile + draw] = draws[j + draw].x[column];
      }
    }
    Layer layer = layer_of(shape, network, 1, draws[j].row, columns, network);
    StoreUnits<true> store{scratch.units + j * scratch.padded, scratch.padded};
    hidden_layer<kTile>(layer, scratch.packed, store);
    j += kTile;
  }
}

// Fills units and steps for at most kDrawsAtOnce draws.
HWY_INLINE void forward_draws(const NetworkShape& shape, const float* network,
                              std::span<const AdaptationDraw> draws, DrawScratch& scratch) {
  const std::size_t padded = scratch.padded;
  std::size_t j = 0;
  forward_tiles<kTileDraws>(shape, network, draws, j, scratch);
  forward_tiles<kTileDraws / 2>(shape, network, draws, j, scratch);
  for (; j < draws.size(); ++j) {
    Layer layer = layer_of(shape, network, 1, draws[j].row, draws[j].count, network);
    StoreUnits<true> store{scratch.units + j * padded, 0};
    hidden_layer<1>(layer, draws[j].x, store);
  }
  const float bias = shape.biases ? network[shape.layer_offset(2) + shape.width] : 0.0F;
  for (j = 0; j < draws.size(); ++j) {
    const float value = dot_product(scratch.units + j * padded, scratch.weights, padded) + bias;
    scratch.steps[j] = draws[j].factor * (value - draws[j].reward);
  }
}

// The last block: 1 .. kVectors vectors are left.
template <std::size_t kVectors, class Body>
HWY_INLINE void last_column_block(std::size_t column, std::size_t left, const Body& body) {
  if (left == kVectors) {
    body.template run<kVectors>(column);
  } else if constexpr (kVectors > 1) {
    last_column_block<kVectors - 1>(column, left, body);
  }
}

// Calls body.template run<kVectors>(column) for blocks of at most kMost vectors that make up
// [0, padded).
template <std::size_t kMost, class Body>
HWY_INLINE void for_column_blocks(std::size_t padded, const Body& body) {
  std::size_t column = 0;
  for (; column + kMost * kLanes <= padded; column += kMost * kLanes) {
    body.template run<kMost>(column);
  }
  if constexpr (kMost > 1) {
    const std::size_t left = (padded - column) / kLanes;
    if (left > 0) {
      last_column_block<kMost - 1>(column, left, body);
    }
  }
}

constexpr std::size_t kColumnVectors = kManyRegisters ? 8 : 4;

// What `draws` draws add to W_1 x and to W_2.
struct AddSeen {
  const DrawScratch& scratch;
  const float* sum_steps;
  std::size_t draws;
  float* sums;
  float* last;

  template <std::size_t kVectors>
  HWY_INLINE void run(std::size_t column) const {
    const Tag tag;
    Vector w[kVectors];
    Vector sum[kVectors];
    Vector out[kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      w[r] = hn::Load(tag, scratch.weights + column + r * kLanes);
      sum[r] = hn::LoadU(tag, sums + column + r * kLanes);
      out[r] = hn::LoadU(tag, last + column + r * kLanes);
    }
    for (std::size_t j = 0; j < draws; ++j) {
      const Vector sum_step = hn::Set(tag, sum_steps[j]);
      const Vector step = hn::Set(tag, scratch.steps[j]);
      const float* units = scratch.units + j * scratch.padded + column;
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        const Vector h = hn::Load(tag, units + r * kLanes);
        const Vector signal = hn::IfThenElseZero(hn::Gt(h, hn::Zero(tag)), w[r]);
        sum[r] = hn::MulAdd(sum_step, signal, sum[r]);
        out[r] = hn::MulAdd(step, h, out[r]);
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      hn::StoreU(sum[r], tag, sums + column + r * kLanes);
      hn::StoreU(out[r], tag, last + column + r * kLanes);
    }
  }
};

float Adapt(const NetworkShape& shape, const float* network, std::span<const AdaptationDraw> draws,
            float* sums, float* last, std::vector<float>& room) {
  DrawScratch scratch(shape, longest_draw(draws), 0, room);
  std::copy_n(network + shape.layer_offset(2), shape.width, scratch.weights);
  float bias = 0.0F;
  for (std::size_t begin = 0; begin < draws.size(); begin += kDrawsAtOnce) {
    const auto some = draws.subspan(begin, std::min(kDrawsAtOnce, draws.size() - begin));
    forward_draws(shape, network, some, scratch);
    float sum_steps[kDrawsAtOnce];
    for (std::size_t j = 0; j < some.size(); ++j) {
      sum_steps[j] = scratch.steps[j] * some[j].inner;
      bias += scratch.steps[j];
    }
    for_column_blocks<kColumnVectors / 2>(scratch.padded,
                                          AddSeen{scratch, sum_steps, some.size(), sums, last});
  }
  return bias;
}

// rows[i] += sum over draws of coefficients[draw][first + i] * vectors[draw], for kRows rows, all
// padded.
template <std::size_t kRows>
struct AddWeighted {
  float* rows;
  std::size_t padded;
  const float* const* coefficients;
  std::size_t first;
  const float* vectors;
  std::size_t draws;

  template <std::size_t kVectors>
  HWY_INLINE void run(std::size_t column) const {
    const Tag tag;
    Vector sums[kRows][kVectors];
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        sums[i][r] = hn::Load(tag, rows + i * padded + column + r * kLanes);
      }
    }
    for (std::size_t j = 0; j < draws; ++j) {
      const float* vector = vectors + j * padded + column;
      Vector factors[kRows];
#pragma GCC unroll 2
      for (std::size_t i = 0; i < kRows; ++i) {
        factors[i] = hn::Set(tag, coefficients[j][first + i]);
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        const Vector v = hn::Load(tag, vector + r * kLanes);
#pragma GCC unroll 2
        for (std::size_t i = 0; i < kRows; ++i) {
          sums[i][r] = hn::MulAdd(factors[i], v, sums[i][r]);
        }
      }
    }
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        hn::Store(sums[i][r], tag, rows + i * padded + column + r * kLanes);
      }
    }
  }
};

template <std::size_t kRows>
HWY_INLINE void add_weighted(float* rows, std::size_t padded, const float* const* coefficients,
                             std::size_t first, const float* vectors, std::size_t draws) {
  for_column_blocks<kColumnVectors>(
      padded, AddWeighted<kRows>{rows, padded, coefficients, first, vectors, draws});
}

void BatchStep(const NetworkShape& shape, float* network, std::span<const AdaptationDraw> draws,
               std::vector<float>& room) {
  const Tag tag;
  DrawScratch scratch(shape, draws[0].count, draws[0].count + 2, room);
  const std::size_t padded = scratch.padded;
  const std::size_t inputs = draws[0].count;
  std::copy_n(network + shape.layer_offset(2), shape.width, scratch.weights);
  // The step, row by row of W_1, then W_2 and the biases: all gradients are taken before any move.
  float* last_move = scratch.moves + inputs * padded;
  float* bias_move = last_move + padded;
  float output_bias = 0.0F;
  const float one = 1.0F;
  for (std::size_t begin = 0; begin < draws.size(); begin += kDrawsAtOnce) {
    const auto some = draws.subspan(begin, std::min(kDrawsAtOnce, draws.size() - begin));
    forward_draws(shape, network, some, scratch);
    const float* features[kDrawsAtOnce];
    const float* steps[kDrawsAtOnce];
    const float* ones[kDrawsAtOnce];
    for (std::size_t j = 0; j < some.size(); ++j) {
      features[j] = some[j].x;
      steps[j] = &scratch.steps[j];
      ones[j] = &one;
      output_bias += scratch.steps[j];
      const Vector step = hn::Set(tag, scratch.steps[j]);
      for (std::size_t i = 0; i < padded; i += kLanes) {
        const auto active = hn::Gt(hn::Load(tag, scratch.units + j * padded + i), hn::Zero(tag));
        hn::Store(hn::IfThenElseZero(active, hn::Mul(step, hn::Load(tag, scratch.weights + i))),
                  tag, scratch.signals + j * padded + i);
      }
    }
    std::size_t row = 0;
    for (; row + 2 <= inputs; row += 2) {
      add_weighted<2>(scratch.moves + row * padded, padded, features, row, scratch.signals,
                      some.size());
    }
    for (; row < inputs; ++row) {
      add_weighted<1>(scratch.moves + row * padded, padded, features, row, scratch.signals,
                      some.size());
    }
    add_weighted<1>(last_move, padded, steps, 0, scratch.units, some.size());
    if (shape.biases) {
      add_weighted<1>(bias_move, padded, ones, 0, scratch.signals, some.size());
    }
  }
  const auto move = [&](float* row, const float* by) {
    const std::size_t whole = shape.width / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(tag, row + i), hn::Load(tag, by + i)), tag, row + i);
    }
    for (std::size_t i = whole; i < shape.width; ++i) {
      row[i] += by[i];
    }
  };
  for (std::size_t row = 0; row < inputs; ++row) {
    move(network + (draws[0].row + row) * shape.width, scratch.moves + row * padded);
  }
  float* last = network + shape.layer_offset(2);
  move(last, last_move);
  if (shape.biases) {
    move(network + std::size_t{shape.inputs} * shape.width, bias_move);
    last[shape.width] += output_bias;
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
HWY_EXPORT(Adapt);
HWY_EXPORT(BatchStep);

float adapt(const NetworkShape& shape, const float* network, std::span<const AdaptationDraw> draws,
            float* sums, float* last, std::vector<float>& room) {
  return HWY_DYNAMIC_DISPATCH(Adapt)(shape, network, draws, sums, last, room);
}

void batch_step(const NetworkShape& shape, float* network, std::span<const AdaptationDraw> draws,
                std::vector<float>& room) {
  HWY_DYNAMIC_DISPATCH(BatchStep)(shape, network, draws, room);
}

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

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
