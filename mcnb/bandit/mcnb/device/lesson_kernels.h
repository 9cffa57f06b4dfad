#pragma once

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/draw_kernels.h"
#include "mcnb/bandit/mcnb/device/lanes.h"
#include "mcnb/bandit/mcnb/device/network_kernels.h"

// Kernels that learn from a reward.
namespace mcnb::device {

// By block, for each chunk: lists the learners that a lesson is for, and counts the room that their
// longer histories need.
struct ListMembers {
  State state;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t, std::uint32_t chunk) const {
    const std::uint32_t arm = state.lesson->arm;
    const std::uint32_t* mask = state.masks + arm * std::size_t{state.words};
    const auto note = [&](std::uint32_t position, std::uint32_t user) {
      state.members[position] = user;
      const History history = state.histories[user];
      if (history.size == history.capacity) {
        block.atomic_add(&state.lesson_totals->refs_needed, std::uint64_t{grown(history.capacity)});
      }
    };
    if (state.lesson->is_alone != 0) {
      block.once([&] {
        if (chunk == 0) {
          state.lesson_totals->members = 1;
          state.lesson_totals->refs_used = *state.refs_used;
          note(0, state.lesson->served);
        }
      });
      return;
    }
    const std::uint32_t offset = count_before(state, block, state.chunk_members, arm, chunk);
    const std::uint32_t first_user = chunk * kUsersPerChunk;
    block.compact(
        min_of(kUsersPerChunk, state.users - first_user),
        [&](std::uint32_t i) { return has_bit(mask, first_user + i); },
        [&](std::uint32_t i, std::uint32_t rank) { note(offset + rank, first_user + i); });
    if (chunk == 0) {
      block.once([&] {
        state.lesson_totals->members = state.totals[arm].members;
        state.lesson_totals->refs_used = *state.refs_used;
      });
    }
  }

  static MCNB_ON_DEVICE std::uint32_t grown(std::uint32_t capacity) {
    return capacity == 0 ? 4 : capacity + (capacity + 1) / 2;
  }
};

// A step of a network on (f(x) - r)^2 / 2, for the x and r of a lesson.
template <int kVectors>
MCNB_ON_DEVICE void step_network(const State& state, float* network) {
  float* last = network + std::size_t{state.inputs} * state.width;
  const float* x[1] = {state.lesson_x};
  Wide units[1][kVectors];
  first_layer<1, kVectors>(network, state.width, state.inputs, x, units);
  const float value = last_layer<kVectors>(last, state.width, units[0]);
  const float factor = -state.lesson->rate * (value - state.lesson->reward);
  Wide signals[kVectors];
  MCNB_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const Wide w = Lanes::load(last, kLanes * v, state.width);
    signals[v] = Lanes::where_positive(units[0][v], w);
    Lanes::store(last, kLanes * v, state.width, Lanes::multiply_add(units[0][v], factor, w));
  }
  float* row = network;
  for (std::uint32_t i = 0; i < state.inputs; ++i, row += state.width) {
    if (x[0][i] == 0.0F) {
      continue;
    }
    const float scale = factor * x[0][i];
    MCNB_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Wide w = Lanes::load(row, kLanes * v, state.width);
      Lanes::store(row, kLanes * v, state.width, Lanes::multiply_add(signals[v], scale, w));
    }
  }
}

// By group, for each learner of a lesson: its step.
template <int kVectors>
struct StepLearner {
  State state;

  MCNB_ON_DEVICE std::size_t count() const { return state.lesson_totals->members; }
  MCNB_ON_DEVICE void operator()(std::size_t item) const {
    step_network<kVectors>(state, state.learners + state.members[item] * state.stride);
  }
};

// By thread, for each learner of a lesson: its history and count grow. Some threads also move
// Theta, and the first stores the event itself.
template <class Atomics>
struct Remember {
  State state;

  MCNB_ON_DEVICE std::size_t members() const { return state.lesson_totals->members; }
  MCNB_ON_DEVICE std::size_t count() const {
    return members() > state.stride ? members() : state.stride;
  }
  MCNB_ON_DEVICE void operator()(std::size_t item) const {
    if (item < state.stride && state.lesson->moves_theta != 0) {
      state.theta[item] = state.moved[item];
    }
    if (item >= members()) {
      return;
    }
    const std::uint32_t event = state.lesson->event;
    if (item == 0) {
      float* record = state.events + event * state.event_stride;
      for (std::uint32_t i = 0; i < state.inputs; ++i) {
        record[i] = state.lesson_x[i];
      }
      record[state.inputs] = state.lesson->reward;
    }
    const std::uint32_t user = state.members[item];
    ++state.trained[user];
    History history = state.histories[user];
    if (history.size == history.capacity) {
      history.capacity = ListMembers::grown(history.capacity);
      const std::uint64_t begin = Atomics::add(state.refs_used, std::uint64_t{history.capacity});
      for (std::uint32_t i = 0; i < history.size; ++i) {
        state.refs[begin + i] = state.refs[history.begin + i];
      }
      history.begin = begin;
    }
    if (history.size == 0) {
      Atomics::set_bits(state.has_history + user / 32, 1U << user % 32);
    }
    state.refs[history.begin + history.size++] = event | (members() > 1 ? kSharedEvent : 0);
    state.histories[user] = history;
  }
};

}  // namespace mcnb::device
