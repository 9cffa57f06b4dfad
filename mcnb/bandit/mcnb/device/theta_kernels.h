#pragma once

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/lanes.h"
#include "mcnb/bandit/mcnb/device/network_kernels.h"
#include "mcnb/numeric/block_sums.h"

// Kernels that adapt Theta to draws. Sums over draws have the order of numeric/block_sums.h.
namespace mcnb::device {

inline constexpr std::uint32_t kNumbersPerSlice = 256;  // of a sum, for a block of threads
inline constexpr std::uint32_t kRowsAtOnce = 10;        // of W_1, whose moves registers hold

// Some draws of an arm, evaluated by Theta.
template <int kDraws, int kVectors>
struct EvaluatedDraws {
  const float* xs[kDraws];
  float steps[kDraws];           // factor * (f(x_j) - r_j)
  Wide units[kDraws][kVectors];  // h_1

  // Evaluates draws begin .. begin + kDraws - 1; those from `end` on have steps of zero.
  MCNB_ON_DEVICE void find(const State& state, const CountedDraw* draws, std::uint32_t begin,
                           std::uint32_t end, std::uint32_t arm) {
    const float participants = static_cast<float>(state.totals[arm].participants);
    const double rate = state.task->rate;
    std::uint32_t counts[kDraws];
    MCNB_UNROLL
    for (int j = 0; j < kDraws; ++j) {
      const CountedDraw draw = draws[min_of(begin + j, end - 1)];
      xs[j] = state.events + draw.event * state.event_stride;
      counts[j] = draw.count;
    }
    first_layer<kDraws, kVectors>(state.theta, state.width, state.inputs, xs, units);
    MCNB_UNROLL
    for (int j = 0; j < kDraws; ++j) {
      const float value =
          last_layer<kVectors>(state.theta + std::size_t{state.inputs} * state.width, state.width,
                               units[j]) +
          0.0F;
      const float reward = xs[j][state.inputs];
      const float weight = static_cast<float>(counts[j]) / participants;
      const float factor = static_cast<float>(-rate * static_cast<double>(weight));
      steps[j] = factor * (value - reward);
      if (fabsf(reward) > 1.0F) {
        state.totals[arm].is_extraordinary = 1;
      }
    }
  }
};

// x_j . x, as kernels::dot computes it, with a bias of zero.
MCNB_ON_DEVICE float inner_product(const float* a, const float* b, std::uint32_t count) {
  Wide sum = Lanes::zero();
  for (std::uint32_t i = 0; i < count; i += kLanes) {
    sum = Lanes::multiply_add_wide(Lanes::load(a, i, count), Lanes::load(b, i, count), sum);
  }
  return Lanes::sum(sum) + 0.0F;
}

// How many blocks of threads a multiprocessor should hold, which limits the registers of each.
constexpr int blocks_at_once(int vectors) { return vectors > 8 ? 2 : 3; }

// What a block of threads knows of one of an arm's blocks of draws.
struct BlockOfDraws {
  std::uint32_t arm;
  std::uint32_t first;
  std::uint32_t count;  // at most kDrawsPerBlock
  float* units;         // [draw][padded]: h_1
  float* steps;         // [draw]
  float* sum_steps;     // [draw]: the step times x_j . x
  float* features;      // [draw][kRowsAtOnce]

  static MCNB_ON_BOTH std::size_t floats(const State& state) {
    return kDrawsPerBlock * (state.padded + 2 + std::size_t{kRowsAtOnce});
  }
  MCNB_ON_DEVICE BlockOfDraws(const State& state, float* room, std::uint32_t arm_,
                              std::uint32_t block)
      : arm(arm_), first(block * kDrawsPerBlock) {
    const std::uint32_t draws = state.totals[arm].draws;
    count = first < draws ? min_of(kDrawsPerBlock, draws - first) : 0;
    units = room;
    steps = units + kDrawsPerBlock * state.padded;
    sum_steps = steps + kDrawsPerBlock;
    features = sum_steps + kDrawsPerBlock;
  }

  // Evaluates the draws by Theta, each in a group of lanes.
  template <int kVectors, class Block>
  MCNB_ON_DEVICE void evaluate(const State& state, Block& threads) const {
    constexpr int kDraws = kVectors > 8 ? 2 : 4;
    const CountedDraw* draws = state.draws + arm * std::size_t{state.users};
    const float* x = state.xs + arm * std::size_t{state.inputs};
    threads.for_each_group(parts_of(count, kDraws), [&](std::uint32_t i) {
      EvaluatedDraws<kDraws, kVectors> some;
      some.find(state, draws, first + i * kDraws, first + count, arm);
      MCNB_UNROLL
      for (int j = 0; j < kDraws; ++j) {
        const std::uint32_t draw = i * kDraws + j;
        if (draw >= count) {
          break;
        }
        MCNB_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          Lanes::store(units + draw * state.padded, kLanes * v, state.padded, some.units[j][v]);
        }
        const float sum_step = some.steps[j] * inner_product(some.xs[j], x, state.inputs);
        if (Lanes::is_first()) {
          steps[draw] = some.steps[j];
          sum_steps[draw] = sum_step;
        }
      }
    });
  }

  // Fetches some features of all draws, rows begin .. begin + kRowsAtOnce - 1 of W_1.
  template <class Block>
  MCNB_ON_DEVICE void fetch_features(const State& state, Block& threads,
                                     std::uint32_t begin) const {
    const CountedDraw* draws = state.draws + arm * std::size_t{state.users} + first;
    threads.for_each(count * std::size_t{kRowsAtOnce}, [&](std::size_t i) {
      const auto row = begin + static_cast<std::uint32_t>(i % kRowsAtOnce);
      const float* x = state.events + draws[i / kRowsAtOnce].event * state.event_stride;
      features[i] = row < state.inputs ? x[row] : 0.0F;
    });
  }
};

// By block, for each block of an arm's draws: what they add to W_1 x and W_2. The first block
// begins with these, the others with zeros.
template <int kVectors>
struct AdaptToBlock {
  static constexpr int kBlocksAtOnce = blocks_at_once(kVectors);
  State state;

  std::size_t floats() const { return BlockOfDraws::floats(state); }
  MCNB_ON_DEVICE std::uint32_t blocks_of(std::uint32_t arm) const {
    const std::uint32_t blocks = parts_of(state.totals[arm].draws, kDrawsPerBlock);
    return blocks > 0 ? blocks : 1;
  }
  MCNB_ON_DEVICE std::size_t count() const {
    std::size_t all = 0;
    for (std::uint32_t arm = 0; arm < state.task->arms; ++arm) {
      all += blocks_of(arm);
    }
    return all;
  }
  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& threads, std::size_t item) const {
    std::uint32_t arm = 0;
    while (item >= blocks_of(arm)) {
      item -= blocks_of(arm++);
    }
    const auto block = static_cast<std::uint32_t>(item);
    const BlockOfDraws draws(state, threads.room(), arm, block);
    draws.template evaluate<kVectors>(state, threads);
    const float* x = state.xs + arm * std::size_t{state.inputs};
    const float* last = state.theta + std::size_t{state.inputs} * state.width;
    float* to = state.parts + (arm * std::size_t{state.blocks} + block) * 2 * state.padded;
    threads.for_each(state.padded, [&](std::size_t unit) {
      const bool is_there = unit < state.width;
      const float w = is_there ? last[unit] : 0.0F;
      float sum = 0.0F;
      for (std::uint32_t i = 0; block == 0 && i < state.inputs; ++i) {
        sum = fmaf(is_there ? state.theta[i * std::size_t{state.width} + unit] : 0.0F, x[i], sum);
      }
      float out = block == 0 ? w : 0.0F;
      MCNB_UNROLL_BY_16
      for (std::uint32_t j = 0; j < draws.count; ++j) {
        const float h = draws.units[j * state.padded + unit];
        sum = fmaf(h > 0.0F ? w : 0.0F, draws.sum_steps[j], sum);
        out = fmaf(h, draws.steps[j], out);
      }
      to[unit] = sum;
      to[state.padded + unit] = out;
    });
  }
};

// By block, for each block of the draws of a lesson's arm: what they add to W_1, kRowsAtOnce rows
// at a time, and to W_2.
template <int kVectors>
struct MoveByBlock {
  static constexpr int kBlocksAtOnce = blocks_at_once(kVectors);
  State state;

  std::size_t floats() const { return BlockOfDraws::floats(state); }
  MCNB_ON_DEVICE std::size_t count() const {
    return parts_of(state.totals[state.lesson->arm].draws, kDrawsPerBlock);
  }
  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& threads, std::size_t block) const {
    const BlockOfDraws draws(state, threads.room(), state.lesson->arm,
                             static_cast<std::uint32_t>(block));
    draws.template evaluate<kVectors>(state, threads);
    const float* last = state.theta + std::size_t{state.inputs} * state.width;
    float* to = state.parts + block * (std::size_t{state.inputs} + 1) * state.padded;
    for (std::uint32_t row = 0; row < state.inputs; row += kRowsAtOnce) {
      draws.fetch_features(state, threads, row);
      threads.for_each(state.padded, [&](std::size_t unit) {
        const float w = unit < state.width ? last[unit] : 0.0F;
        float out = 0.0F;
        float moves[kRowsAtOnce] = {};
        for (std::uint32_t j = 0; j < draws.count; ++j) {
          const float h = draws.units[j * state.padded + unit];
          const float signal = h > 0.0F ? w * draws.steps[j] : 0.0F;
          out = fmaf(h, draws.steps[j], out);
          MCNB_UNROLL
          for (std::uint32_t i = 0; i < kRowsAtOnce; ++i) {
            moves[i] = fmaf(signal, draws.features[j * kRowsAtOnce + i], moves[i]);
          }
        }
        MCNB_UNROLL
        for (std::uint32_t i = 0; i < kRowsAtOnce; ++i) {
          if (row + i < state.inputs) {
            to[(row + i) * std::size_t{state.padded} + unit] = moves[i];
          }
        }
        if (row == 0) {
          to[std::size_t{state.inputs} * state.padded + unit] = out;
        }
      });
    }
  }
};

// The sum of the parts first .. first + count - 1, at one of their `length` numbers.
MCNB_ON_DEVICE float sum_of_parts(const float* parts, std::size_t length, std::uint32_t first,
                                  std::uint32_t count, std::size_t number) {
  const float* from = parts + first * length + number;
  float sum = from[0];
  MCNB_UNROLL_BY_16
  for (std::uint32_t i = 1; i < count; ++i) {
    sum += from[i * length];
  }
  return sum;
}

// Where the parts of a pass or of a lesson lie. For a lesson there is one arm.
struct PartsOfArms {
  State state;
  bool of_lesson;

  MCNB_ON_DEVICE std::uint32_t arms() const { return of_lesson ? 1 : state.task->arms; }
  MCNB_ON_BOTH std::size_t length() const {
    return of_lesson ? (std::size_t{state.inputs} + 1) * state.padded
                     : 2 * std::size_t{state.padded};
  }
  MCNB_ON_DEVICE std::uint32_t blocks(std::uint32_t arm) const {
    const std::uint32_t of = of_lesson ? state.lesson->arm : arm;
    const std::uint32_t count = parts_of(state.totals[of].draws, kDrawsPerBlock);
    return count > 0 || of_lesson ? count : 1;
  }
  // How many sums of a level there are: blocks on level 0, and a 64th of them on each next one.
  MCNB_ON_DEVICE std::uint32_t count_at(std::uint32_t level, std::uint32_t arm) const {
    std::uint32_t count = blocks(arm);
    for (; level > 0; --level) {
      count = parts_of(count, kDrawsPerBlock);
    }
    return count;
  }
  // Where they lie: levels above the blocks take turns in two arrays.
  MCNB_ON_DEVICE float* sums(std::uint32_t level, std::uint32_t arm) const {
    if (level == 0) {
      return state.parts + arm * std::size_t{state.blocks} * length();
    }
    return (level % 2 == 1 ? state.groups : state.more_groups) +
           arm * std::size_t{parts_of(state.blocks, kDrawsPerBlock)} * length();
  }
};

MCNB_ON_BOTH std::uint32_t slices_of(const PartsOfArms& parts) {
  return parts_of(static_cast<std::uint32_t>(parts.length()), kNumbersPerSlice);
}

// By thread, for each number of the sums of 64 blocks, or of 64 of such sums: from one level of
// sums to the next.
struct SumBlocks {
  PartsOfArms parts;
  std::uint32_t level;  // 0: of blocks

  MCNB_ON_DEVICE std::uint32_t sums_of(std::uint32_t arm) const {
    return parts_of(parts.count_at(level, arm), kDrawsPerBlock);
  }
  MCNB_ON_DEVICE std::size_t count() const {
    std::size_t all = 0;
    for (std::uint32_t arm = 0; arm < parts.arms(); ++arm) {
      all += sums_of(arm) * parts.length();
    }
    return all;
  }
  MCNB_ON_DEVICE void operator()(std::size_t item) const {
    const std::size_t length = parts.length();
    std::uint32_t arm = 0;
    while (item >= sums_of(arm) * length) {
      item -= sums_of(arm++) * length;
    }
    const std::uint32_t first = static_cast<std::uint32_t>(item / length) * kDrawsPerBlock;
    parts.sums(level + 1, arm)[item] =
        sum_of_parts(parts.sums(level, arm), length, first,
                     min_of(kDrawsPerBlock, parts.count_at(level, arm) - first), item % length);
  }
};

// By block, for each arm and each slice of the numbers of a sum: adds the sums of a level until one
// is left, and hands the result to the host: an arm's adaptation, or the Theta that a lesson leads
// to, which the device keeps, too. A stamp says that it is there.
struct SumGroups {
  PartsOfArms parts;
  std::uint32_t level;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t slice) const {
    const State& state = parts.state;
    const std::size_t length = parts.length();
    const std::size_t begin = slice * std::size_t{kNumbersPerSlice};
    const std::size_t numbers =
        length - begin < kNumbersPerSlice ? length - begin : kNumbersPerSlice;
    std::uint32_t at = level;
    std::uint32_t count = parts.count_at(at, arm);
    for (; count > 1; ++at) {
      const std::uint32_t fewer = parts_of(count, kDrawsPerBlock);
      const float* from = parts.sums(at, arm);
      float* to = parts.sums(at + 1, arm);
      block.for_each(fewer * numbers, [&](std::size_t i) {
        const auto sum = static_cast<std::uint32_t>(i / numbers);
        const std::uint32_t first = sum * kDrawsPerBlock;
        const std::size_t number = begin + i % numbers;
        to[sum * length + number] =
            sum_of_parts(from, length, first, min_of(kDrawsPerBlock, count - first), number);
      });
      count = fewer;
    }
    const float* from = parts.sums(at, arm) + begin;
    if (!parts.of_lesson) {
      block.for_each(numbers,
                     [&](std::size_t i) { state.adapted[arm * length + begin + i] = from[i]; });
      block.once([&] { state.found[arm] = state.totals[arm]; });
      block.stamp(state.stamps + arm * slices_of(parts) + slice, state.task->stamp);
      return;
    }
    block.for_each(numbers, [&](std::size_t i) {
      const std::size_t unit = (begin + i) % state.padded;
      const std::size_t number = (begin + i) / state.padded * state.width + unit;
      if (unit < state.width) {
        const float moved = count > 0 ? state.theta[number] + from[i] : state.theta[number];
        state.moved[number] = moved;
        state.found_moved[number] = moved;
      }
    });
    block.once([&] { *state.found_lesson = *state.lesson_totals; });
    block.stamp(state.stamps + slice, state.lesson->stamp);
  }
};

}  // namespace mcnb::device
