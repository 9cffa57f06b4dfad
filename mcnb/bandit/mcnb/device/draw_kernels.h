#pragma once

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/lanes.h"
#include "mcnb/bandit/mcnb/device/philox.h"

// Kernels that draw past events of a cluster's members, as MemberDraws does on the CPU.
namespace mcnb::device {

// By block, for each chunk of an arm: every participant draws an event of its history.
struct DrawEvents {
  State state;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t chunk) const {
    const std::uint32_t* before = state.chunk_participants + arm * std::size_t{state.chunks};
    const std::uint32_t* mask = state.masks + arm * std::size_t{state.words};
    std::uint32_t* drawn = state.drawn + arm * std::size_t{state.users};
    EventUse* uses = state.uses + arm * state.event_capacity;
    const std::uint32_t key[2] = {state.task->keys[arm][0], state.task->keys[arm][1]};
    const std::uint32_t offset = block.sum(chunk, [&](std::uint32_t i) { return before[i]; });
    const std::uint32_t first_user = chunk * kUsersPerChunk;
    const std::uint32_t found = block.compact(
        min_of(kUsersPerChunk, state.users - first_user),
        [&](std::uint32_t i) {
          return has_bit(mask, first_user + i) && has_bit(state.has_history, first_user + i);
        },
        [&](std::uint32_t i, std::uint32_t rank) {
          const std::uint32_t user = first_user + i;
          const History history = state.histories[user];
          const std::uint32_t position = below(key, user, history.size);
          const std::uint32_t event = state.refs[history.begin + position];
          drawn[offset + rank] = event;
          block.atomic_max(&uses[event].inverted_first, ~(offset + rank));
          block.atomic_add(&uses[event].count, 1U);
        });
    if (chunk + 1 == state.chunks) {
      const std::uint32_t* members = state.chunk_members + arm * std::size_t{state.chunks};
      const std::uint32_t all =
          block.sum(state.chunks, [&](std::uint32_t i) { return members[i]; });
      block.once([&] {
        state.totals[arm].members = all;
        state.totals[arm].participants = offset + found;
      });
    }
  }
};

// By block, for each chunk of an arm's draws: how many are the first of their event.
struct CountFirsts {
  State state;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t chunk) const {
    const std::uint32_t* drawn = state.drawn + arm * std::size_t{state.users};
    const EventUse* uses = state.uses + arm * state.event_capacity;
    const std::uint32_t participants = state.totals[arm].participants;
    const std::uint32_t first = chunk * kUsersPerChunk;
    if (first >= participants) {
      return;
    }
    const std::uint32_t firsts =
        block.sum(min_of(kUsersPerChunk, participants - first), [&](std::uint32_t i) {
          return uses[drawn[first + i]].inverted_first == ~(first + i) ? 1U : 0U;
        });
    block.once([&] { state.chunk_firsts[arm * std::size_t{state.chunks} + chunk] = firsts; });
  }
};

// By block, for each chunk of an arm's draws: lists the different events in the order of the first
// members that drew them, and forgets who drew what.
struct ListDraws {
  State state;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t chunk) const {
    const std::uint32_t* drawn = state.drawn + arm * std::size_t{state.users};
    EventUse* uses = state.uses + arm * state.event_capacity;
    CountedDraw* draws = state.draws + arm * std::size_t{state.users};
    const std::uint32_t* before = state.chunk_firsts + arm * std::size_t{state.chunks};
    const std::uint32_t participants = state.totals[arm].participants;
    const std::uint32_t first = chunk * kUsersPerChunk;
    if (first >= participants) {
      return;  // without participants totals.draws stays 0
    }
    const std::uint32_t offset = block.sum(chunk, [&](std::uint32_t i) { return before[i]; });
    const std::uint32_t found = block.compact(
        min_of(kUsersPerChunk, participants - first),
        [&](std::uint32_t i) { return uses[drawn[first + i]].inverted_first == ~(first + i); },
        [&](std::uint32_t i, std::uint32_t rank) {
          EventUse& use = uses[drawn[first + i]];
          draws[offset + rank] = {drawn[first + i], use.count};
          use = {0, 0};  // draws of the event that come later are still not its first
        });
    if (first + kUsersPerChunk >= participants) {
      block.once([&] { state.totals[arm].draws = offset + found; });
    }
  }
};

}  // namespace mcnb::device
