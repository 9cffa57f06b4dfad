#pragma once

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/lanes.h"

// Kernels that evaluate the learners. Every sum has the order of the CPU's kernels.
namespace mcnb::device {

// sums[j][v] = W_1 x_j for kPoints points, where weights is the first row of W_1.
template <int kPoints, int kVectors>
MCNB_ON_DEVICE void first_layer(const float* weights, std::uint32_t width, std::uint32_t inputs,
                                const float* const (&xs)[kPoints],
                                Wide (&sums)[kPoints][kVectors]) {
  MCNB_UNROLL
  for (int j = 0; j < kPoints; ++j) {
    MCNB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[j][v] = Lanes::zero();
    }
  }
  for (std::uint32_t i = 0; i < inputs; ++i, weights += width) {
    MCNB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Wide w = Lanes::load(weights, kLanes * v, width);
      MCNB_UNROLL
      for (int j = 0; j < kPoints; ++j) {
        sums[j][v] = Lanes::multiply_add(w, xs[j][i], sums[j][v]);
      }
    }
  }
}

// The ReLU, and its product with W_2.
template <int kVectors>
MCNB_ON_DEVICE float last_layer(const float* last, std::uint32_t width, Wide (&units)[kVectors]) {
  Wide sum = Lanes::zero();
  MCNB_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    units[v] = Lanes::relu(units[v]);
    sum = Lanes::multiply_add_wide(units[v], Lanes::load(last, kLanes * v, width), sum);
  }
  return Lanes::sum(sum);
}

// One feature of kArms arms. They are read in pairs, so that shared memory is asked less often;
// tiles of an even number of arms begin at even arms.
template <int kArms>
MCNB_ON_DEVICE void load_arms(const float* packed, float (&x)[kArms]) {
  struct alignas(8) Pair {
    float first, second;
  };
  if constexpr (kArms % 2 == 0) {
    MCNB_UNROLL
    for (int pair = 0; pair < kArms / 2; ++pair) {
      const Pair both = reinterpret_cast<const Pair*>(packed)[pair];
      x[2 * pair] = both.first;
      x[2 * pair + 1] = both.second;
    }
  } else {
    MCNB_UNROLL
    for (int arm = 0; arm < kArms; ++arm) {
      x[arm] = packed[arm];
    }
  }
}

// f(x) of one network for kArms arms of packed features, as lanes that are still to be added.
template <int kArms, int kVectors>
MCNB_ON_DEVICE void estimate(const State& state, const float* network, const float* packed,
                             Wide (&lanes)[kArms]) {
  Wide sums[kArms][kVectors];
  MCNB_UNROLL
  for (int arm = 0; arm < kArms; ++arm) {
    MCNB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[arm][v] = Lanes::zero();
    }
  }
  const float* row = network;
  for (std::uint32_t i = 0; i < state.inputs; ++i, row += state.width, packed += kMostArmsAtOnce) {
    float x[kArms];
    load_arms<kArms>(packed, x);
    MCNB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Wide w = Lanes::load(row, kLanes * v, state.width);
      MCNB_UNROLL
      for (int arm = 0; arm < kArms; ++arm) {
        sums[arm][v] = Lanes::multiply_add(w, x[arm], sums[arm][v]);
      }
    }
  }
  MCNB_UNROLL
  for (int arm = 0; arm < kArms; ++arm) {
    lanes[arm] = Lanes::zero();
  }
  MCNB_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const Wide w = Lanes::load(row, kLanes * v, state.width);
    MCNB_UNROLL
    for (int arm = 0; arm < kArms; ++arm) {
      lanes[arm] = Lanes::multiply_add_wide(Lanes::relu(sums[arm][v]), w, lanes[arm]);
    }
  }
}

// By block, for each arm: the estimate of the arm's own learner. The block of an arm also copies
// one of the different learners for the host, clears the arm's counts, and brings its share of the
// task from the host to the device, for all kernels that follow.
template <int kVectors>
struct OwnLearners {
  static constexpr std::uint32_t kTaskWords = sizeof(Task) / sizeof(float);
  State state;
  std::uint32_t arms;
  std::uint32_t words;  // of the task, xs and packed

  std::size_t floats() const { return kTaskWords + std::size_t{state.inputs}; }
  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t) const {
    const Task* const task = reinterpret_cast<const Task*>(block.room());
    const float* const x = block.room() + kTaskWords;
    read_task(block, arm);
    if (arm < task->rows) {
      const float* from = state.learners + task->row_learners[arm] * state.stride;
      float* to = state.rows + arm * state.stride;
      block.for_each(state.stride / 4, [&](std::size_t i) {
        reinterpret_cast<FourNumbers*>(to)[i] = reinterpret_cast<const FourNumbers*>(from)[i];
      });
    }
    block.for_each(state.chunks, [&](std::size_t i) {
      state.chunk_members[arm * std::size_t{state.chunks} + i] = 0;
      state.chunk_participants[arm * std::size_t{state.chunks} + i] = 0;
    });
    const std::uint32_t learner = task->learners[arm];
    block.for_each_group(1, [&](std::uint32_t) {
      const float* const network = state.learners + learner * state.stride;
      const float* const xs[1] = {x};
      Wide units[1][kVectors];
      first_layer<1, kVectors>(network, state.width, state.inputs, xs, units);
      const float own = last_layer<kVectors>(network + std::size_t{state.inputs} * state.width,
                                             state.width, units[0]);
      if (Lanes::is_first()) {
        state.totals[arm] = {.trained = state.trained[learner], .own = own};
      }
    });
  }

 private:
  // Reads the task and this arm's x into the block's room, and copies a share of all to the device.
  // Words that come from the host take long, so all are asked for at once.
  template <class Block>
  MCNB_ON_DEVICE void read_task(Block& block, std::uint32_t arm) const {
    const auto* given = reinterpret_cast<const float*>(state.given);
    auto* task = reinterpret_cast<float*>(const_cast<Task*>(state.task));
    float* const room = block.room();
    const std::uint32_t own = kTaskWords + state.inputs;
    const std::uint32_t share = parts_of(words, arms);
    const std::uint32_t first = arm * share;
    const std::uint32_t count = first < words ? min_of(share, words - first) : 0;
    block.for_each(own + count, [&](std::size_t i) {
      if (i < own) {
        const std::size_t skipped = i < kTaskWords ? 0 : arm * std::size_t{state.inputs};
        copy_word(room + i, given + skipped + i);
      } else {
        copy_word(task + first + (i - own), given + first + (i - own));
      }
    });
  }
};

// A bit for each of kArms arms with which a learner agrees: |f - own| <= gap.
template <int kArms, int kVectors>
MCNB_ON_DEVICE std::uint32_t agreements(const State& state, const float* network,
                                        const float* packed, const ArmTotals* totals, float gap) {
  Wide lanes[kArms];
  estimate<kArms, kVectors>(state, network, packed, lanes);
  return Lanes::bits_of_sums<kArms>(
      lanes, [&](std::uint32_t arm, float value) { return fabsf(value - totals[arm].own) <= gap; });
}

// The same for all arms of a pass, in tiles. Bits beyond them say nothing.
template <int kVectors>
MCNB_ON_DEVICE std::uint32_t all_agreements(const State& state, const float* network,
                                            const float* packed, const ArmTotals* totals, float gap,
                                            std::uint32_t arms) {
  constexpr int kMost = kVectors > 8 ? 4 : 10;
  std::uint32_t bits = 0;
  for (std::uint32_t arm = 0; arm < arms;) {
    const std::uint32_t left = arms - arm;
    if (left == 1) {
      bits |= agreements<1, kVectors>(state, network, packed + arm, totals + arm, gap) << arm;
      arm += 1;
    } else if (left <= 4) {
      bits |= agreements<4, kVectors>(state, network, packed + arm, totals + arm, gap) << arm;
      arm += 4;
    } else {
      bits |= agreements<kMost, kVectors>(state, network, packed + arm, totals + arm, gap) << arm;
      arm += kMost;
    }
  }
  return bits;
}

}  // namespace mcnb::device
