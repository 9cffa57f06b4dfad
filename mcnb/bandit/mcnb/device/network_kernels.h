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

// f(x) of one network for the arms first .. first + kArms - 1 of packed features.
template <int kArms, int kVectors>
MCNB_ON_DEVICE void estimate(const State& state, const float* network, const float* packed,
                             float (&values)[kArms]) {
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
    MCNB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Wide w = Lanes::load(row, kLanes * v, state.width);
      MCNB_UNROLL
      for (int arm = 0; arm < kArms; ++arm) {
        sums[arm][v] = Lanes::multiply_add(w, packed[arm], sums[arm][v]);
      }
    }
  }
  Wide lanes[kArms];
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
  MCNB_UNROLL
  for (int arm = 0; arm < kArms; ++arm) {
    values[arm] = Lanes::sum(lanes[arm]);
  }
}

// By group, for each arm: the estimate of the arm's own learner.
template <int kVectors>
struct EstimateOwn {
  State state;

  MCNB_ON_DEVICE void operator()(std::uint32_t arm) const {
    const std::uint32_t learner = state.task->learners[arm];
    float value[1];
    estimate<1, kVectors>(state, state.learners + learner * state.stride, state.packed + arm,
                          value);
    if (Lanes::is_first()) {
      state.totals[arm] = {.trained = state.trained[learner], .own = value[0]};
    }
  }
};

// By thread, for each number of the rows that go to the host.
struct CopyRows {
  State state;

  MCNB_ON_DEVICE std::size_t count() const { return state.task->rows * state.stride; }
  MCNB_ON_DEVICE void operator()(std::size_t i) const {
    const std::uint32_t learner = state.task->row_learners[i / state.stride];
    state.rows[i] = state.learners[learner * state.stride + i % state.stride];
  }
};

// A bit for each of kArms arms with which a learner agrees: |f - own| <= gap.
template <int kArms, int kVectors>
MCNB_ON_DEVICE std::uint32_t agreements(const State& state, const float* network,
                                        const float* packed, const ArmTotals* totals, float gap) {
  float values[kArms];
  estimate<kArms, kVectors>(state, network, packed, values);
  std::uint32_t bits = 0;
  MCNB_UNROLL
  for (int arm = 0; arm < kArms; ++arm) {
    bits |= fabsf(values[arm] - totals[arm].own) <= gap ? 1U << arm : 0U;
  }
  return bits;
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
