#pragma once

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/philox.h"

// For benchmarks: users that were made, not learned, which would take the host minutes, and a plain
// read of them.
namespace mcnb::device {

// By thread, for each number of the learners: all get the same start.
struct FillLearners {
  State state;
  const float* start;

  MCNB_ON_DEVICE std::size_t count() const { return state.users * state.stride; }
  MCNB_ON_DEVICE void operator()(std::size_t i) const {
    state.learners[i] = start[i % state.stride];
  }
};

// A number that is roughly normal, of mean 0 and deviation 1: the sum of four uniform ones.
MCNB_ON_DEVICE float roughly_normal(std::uint32_t a, std::uint32_t b, std::uint64_t seed) {
  const RandomWords words =
      philox(0, 0, a, b, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  float sum = 0.0F;
  for (const std::uint32_t word : words.word) {
    sum += static_cast<float>(word >> 8) * 0x1p-24F - 0.5F;
  }
  return sum * 1.7320508F;
}

// By thread, for each number of the learners: distinct networks with weights of deviation scale *
// sqrt(2 / m), W_2 with scale * sqrt(1 / m), so that f(x) has a deviation of about scale^2 /
// sqrt(m) over the users for features of unit length.
struct MakeLearners {
  State state;
  std::uint64_t seed;
  float scale;

  MCNB_ON_DEVICE std::size_t count() const { return state.users * state.stride; }
  MCNB_ON_DEVICE void operator()(std::size_t i) const {
    const auto user = static_cast<std::uint32_t>(i / state.stride);
    const auto number = static_cast<std::uint32_t>(i % state.stride);
    const bool last = number >= state.inputs * state.width;
    const float size = scale * sqrtf((last ? 1.0F : 2.0F) / static_cast<float>(state.width));
    state.learners[i] = number < (state.inputs + 1) * state.width
                            ? size * roughly_normal(user, number, seed)
                            : 0.0F;
  }
};

// By thread, for each user: events of its own, of unit length, with rewards of 0 and 1.
struct MakeHistories {
  State state;
  std::uint64_t seed;
  std::uint32_t events;

  MCNB_ON_DEVICE std::size_t count() const { return state.users; }
  MCNB_ON_DEVICE void operator()(std::size_t item) const {
    const auto user = static_cast<std::uint32_t>(item);
    for (std::uint32_t i = 0; i < events; ++i) {
      const std::size_t event = item * events + i;
      float* record = state.events + event * state.event_stride;
      float squares = 0.0F;
      for (std::uint32_t k = 0; k < state.inputs; ++k) {
        record[k] = roughly_normal(user, i * state.inputs + k, ~seed);
        squares += record[k] * record[k];
      }
      for (std::uint32_t k = 0; k < state.inputs; ++k) {
        record[k] /= sqrtf(squares);
      }
      record[state.inputs] = static_cast<float>(
          philox(1, 0, user, i, static_cast<std::uint32_t>(seed), 0).word[0] % 2);
      state.refs[event] = static_cast<std::uint32_t>(event);
    }
    state.histories[item] = {item * events, events, events};
    state.trained[item] = events;
    if (user % 32 == 0) {
      const std::uint32_t left = state.users - user;
      state.has_history[user / 32] = left >= 32 ? 0xffffffffU : (1U << left) - 1;
    }
  }
};

// By thread, for sixteen numbers of the learners: reads them, as fast as memory allows.
struct ReadLearners {
  State state;
  float* unused;  // written by nobody, which a compiler cannot know

  MCNB_ON_DEVICE std::size_t count() const { return state.words * (32 / 16) * state.stride; }
  MCNB_ON_DEVICE void operator()(std::size_t i) const {
    const auto* fours = reinterpret_cast<const FourNumbers*>(state.learners);
    FourNumbers some[4];
    MCNB_UNROLL
    for (int turn = 0; turn < 4; ++turn) {
      some[turn] = fours[turn * count() + i];
    }
    float sum = 0.0F;
    MCNB_UNROLL
    for (int turn = 0; turn < 4; ++turn) {
      sum +=
          some[turn].number[0] + some[turn].number[1] + some[turn].number[2] + some[turn].number[3];
    }
    if (sum == 1e30F) {
      *unused = sum;
    }
  }
};

}  // namespace mcnb::device
