#include "mcnb/numeric/kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/adaptation_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "mcnb/numeric/block_sums.h"
#include "mcnb/numeric/kernels.inc"

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

// Draws are processed a few at a time, so that intermediate values stay in the first-level cache.
constexpr std::size_t kDrawsAtOnce = 32;
constexpr std::size_t kTileDraws = 8;

// Divides the caller's working memory.
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
    // The memory after the last vector of units is read but never written.
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

// Fills the units of draws from `j` on, kTile at a time, while they belong to one block.
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

// Computes what `draws` draws add to W_1 x and to W_2.
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

// Calls action(draws) for some draws at a time, and end_block() where a block of the fixed order
// ends (block_sums.h), except at the end of all draws.
template <class Action, class EndBlock>
HWY_INLINE void for_draws(std::span<const AdaptationDraw> draws, Action action,
                          EndBlock end_block) {
  static_assert(kDrawsPerBlock % kDrawsAtOnce == 0);
  for (std::size_t begin = 0; begin < draws.size(); begin += kDrawsAtOnce) {
    if (begin > 0 && begin % kDrawsPerBlock == 0) {
      end_block();
    }
    action(draws.subspan(begin, std::min(kDrawsAtOnce, draws.size() - begin)));
  }
}

// The first block's sums begin with `sums` and `last` as they are, those of the others with zeros.
float Adapt(const NetworkShape& shape, const float* network, std::span<const AdaptationDraw> draws,
            float* sums, float* last, std::vector<float>& room) {
  DrawScratch scratch(shape, longest_draw(draws), 0, room);
  std::copy_n(network + shape.layer_offset(2), shape.width, scratch.weights);
  const std::size_t padded = scratch.padded;
  std::optional<BlockSums> all_sums;
  std::optional<BlockSums> all_last;
  if (draws.size() > kDrawsPerBlock) {
    all_sums.emplace(padded);
    all_last.emplace(padded);
  }
  float bias = 0.0F;
  const auto add = [&](std::span<const AdaptationDraw> some) {
    forward_draws(shape, network, some, scratch);
    float sum_steps[kDrawsAtOnce];
    for (std::size_t j = 0; j < some.size(); ++j) {
      sum_steps[j] = scratch.steps[j] * some[j].inner;
      bias += scratch.steps[j];
    }
    for_column_blocks<kColumnVectors / 2>(padded,
                                          AddSeen{scratch, sum_steps, some.size(), sums, last});
  };
  for_draws(draws, add, [&] {
    all_sums->add(sums);
    all_last->add(last);
    std::fill_n(sums, padded, 0.0F);
    std::fill_n(last, padded, 0.0F);
  });
  if (all_sums) {
    all_sums->add(sums);
    all_sums->finish(sums);
    all_last->add(last);
    all_last->finish(last);
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

// row[i] += by[i] for the first `width` numbers.
void move_row(float* row, const float* by, std::size_t width) {
  const Tag tag;
  const std::size_t whole = width / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(tag, row + i), hn::Load(tag, by + i)), tag, row + i);
  }
  for (std::size_t i = whole; i < width; ++i) {
    row[i] += by[i];
  }
}

// Adds what the draws move to the moves in `scratch`: rows of W_1, then W_2, then the biases of
// W_1. Returns what they add to the bias of W_2.
float add_moves_of(std::span<const AdaptationDraw> draws, bool biases, DrawScratch& scratch) {
  const Tag tag;
  const std::size_t padded = scratch.padded;
  const std::size_t inputs = draws[0].count;
  float* last_move = scratch.moves + inputs * padded;
  float output_bias = 0.0F;
  const float one = 1.0F;
  const float* features[kDrawsAtOnce];
  const float* steps[kDrawsAtOnce];
  const float* ones[kDrawsAtOnce];
  for (std::size_t j = 0; j < draws.size(); ++j) {
    features[j] = draws[j].x;
    steps[j] = &scratch.steps[j];
    ones[j] = &one;
    output_bias += scratch.steps[j];
    const Vector step = hn::Set(tag, scratch.steps[j]);
    for (std::size_t i = 0; i < padded; i += kLanes) {
      const auto active = hn::Gt(hn::Load(tag, scratch.units + j * padded + i), hn::Zero(tag));
      hn::Store(hn::IfThenElseZero(active, hn::Mul(step, hn::Load(tag, scratch.weights + i))), tag,
                scratch.signals + j * padded + i);
    }
  }
  std::size_t row = 0;
  for (; row + 2 <= inputs; row += 2) {
    add_weighted<2>(scratch.moves + row * padded, padded, features, row, scratch.signals,
                    draws.size());
  }
  for (; row < inputs; ++row) {
    add_weighted<1>(scratch.moves + row * padded, padded, features, row, scratch.signals,
                    draws.size());
  }
  add_weighted<1>(last_move, padded, steps, 0, scratch.units, draws.size());
  if (biases) {
    add_weighted<1>(last_move + padded, padded, ones, 0, scratch.signals, draws.size());
  }
  return output_bias;
}

// The moves are summed in the fixed order of block_sums.h; each block begins with zeros.
void BatchStep(const NetworkShape& shape, float* network, std::span<const AdaptationDraw> draws,
               std::vector<float>& room) {
  DrawScratch scratch(shape, draws[0].count, draws[0].count + 2, room);
  const std::size_t padded = scratch.padded;
  const std::size_t inputs = draws[0].count;
  std::copy_n(network + shape.layer_offset(2), shape.width, scratch.weights);
  // Updates W_1 row by row, then W_2 and the biases; all gradients are computed before.
  float* last_move = scratch.moves + inputs * padded;
  float* bias_move = last_move + padded;
  const std::size_t moved = (inputs + 2) * padded;
  std::optional<BlockSums> all_moves;
  if (draws.size() > kDrawsPerBlock) {
    all_moves.emplace(moved);
  }
  float output_bias = 0.0F;
  for_draws(
      draws,
      [&](std::span<const AdaptationDraw> some) {
        forward_draws(shape, network, some, scratch);
        output_bias += add_moves_of(some, shape.biases, scratch);
      },
      [&] {
        all_moves->add(scratch.moves);
        std::fill_n(scratch.moves, moved, 0.0F);
      });
  if (all_moves) {
    all_moves->add(scratch.moves);
    all_moves->finish(scratch.moves);
  }
  for (std::size_t row = 0; row < inputs; ++row) {
    move_row(network + (draws[0].row + row) * shape.width, scratch.moves + row * padded,
             shape.width);
  }
  float* last = network + shape.layer_offset(2);
  move_row(last, last_move, shape.width);
  if (shape.biases) {
    move_row(network + std::size_t{shape.inputs} * shape.width, bias_move, shape.width);
    last[shape.width] += output_bias;
  }
}

// sums += the sum over the draws of inner * move.
struct AddMoves {
  std::span<const EarlierMove> earlier;
  const float* from;
  float* to;

  template <std::size_t kVectors>
  HWY_INLINE void run(std::size_t column) const {
    const Tag tag;
    Vector sums[kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      sums[r] = hn::LoadU(tag, from + column + r * kLanes);
    }
    for (const EarlierMove& each : earlier) {
      const Vector inner = hn::Set(tag, each.inner);
      const float* move = each.move + column;
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kVectors; ++r) {
        sums[r] = hn::MulAdd(inner, hn::LoadU(tag, move + r * kLanes), sums[r]);
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      hn::StoreU(sums[r], tag, to + column + r * kLanes);
    }
  }
};

void AddMovesTo(std::size_t padded, std::span<const EarlierMove> earlier, float* sums) {
  for_column_blocks<kColumnVectors>(padded, AddMoves{earlier, sums, sums});
}

void ImplicitStep(std::size_t padded, std::span<const ImplicitDraw> draws, ImplicitNetwork& network,
                  float* moves, std::vector<float>& room) {
  const Tag tag;
  room.resize(draws.size() * (padded + 1));
  float* steps = room.data();
  float* units = steps + draws.size();
  float bias_step = 0.0F;
  for (std::size_t j = 0; j < draws.size(); ++j) {
    float* h = units + j * padded;
    for_column_blocks<kColumnVectors>(padded, AddMoves{draws[j].earlier, draws[j].sums, h});
    for (std::size_t i = 0; i < padded; i += kLanes) {
      Vector sum = hn::LoadU(tag, h + i);
      if (network.biases != nullptr) {
        sum = hn::Add(sum, hn::LoadU(tag, network.biases + i));
      }
      hn::StoreU(hn::Max(sum, hn::Zero(tag)), tag, h + i);
    }
    const float value = dot_product(h, network.last, padded) + network.last_bias;
    steps[j] = draws[j].factor * (value - draws[j].reward);
    bias_step += steps[j];
  }
  for (std::size_t i = 0; i < padded; i += kLanes) {
    const Vector before = hn::LoadU(tag, network.last + i);
    Vector last = before;
    Vector bias = network.biases != nullptr ? hn::LoadU(tag, network.biases + i) : hn::Zero(tag);
    for (std::size_t j = 0; j < draws.size(); ++j) {
      const Vector step = hn::Set(tag, steps[j]);
      const Vector h = hn::LoadU(tag, units + j * padded + i);
      const Vector move = hn::IfThenElseZero(hn::Gt(h, hn::Zero(tag)), hn::Mul(step, before));
      hn::StoreU(move, tag, moves + j * padded + i);
      bias = hn::Add(bias, move);
      last = hn::MulAdd(step, h, last);
    }
    hn::StoreU(last, tag, network.last + i);
    if (network.biases != nullptr) {
      hn::StoreU(bias, tag, network.biases + i);
    }
  }
  if (network.biases != nullptr) {
    network.last_bias += bias_step;
  }
}

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mcnb::kernels {

HWY_EXPORT(Adapt);
HWY_EXPORT(BatchStep);
HWY_EXPORT(ImplicitStep);
HWY_EXPORT(AddMovesTo);

float adapt(const NetworkShape& shape, const float* network, std::span<const AdaptationDraw> draws,
            float* sums, float* last, std::vector<float>& room) {
  return HWY_DYNAMIC_DISPATCH(Adapt)(shape, network, draws, sums, last, room);
}

void batch_step(const NetworkShape& shape, float* network, std::span<const AdaptationDraw> draws,
                std::vector<float>& room) {
  HWY_DYNAMIC_DISPATCH(BatchStep)(shape, network, draws, room);
}

void implicit_step(std::size_t padded, std::span<const ImplicitDraw> draws,
                   ImplicitNetwork& network, float* moves, std::vector<float>& room) {
  HWY_DYNAMIC_DISPATCH(ImplicitStep)(padded, draws, network, moves, room);
}

void add_moves(std::size_t padded, std::span<const EarlierMove> earlier, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddMovesTo)(padded, earlier, sums);
}

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
