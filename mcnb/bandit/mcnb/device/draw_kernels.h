#pragma once

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/lanes.h"
#include "mcnb/bandit/mcnb/device/philox.h"

// Kernels that draw past events of a cluster's members, as MemberDraws does on the CPU.
namespace mcnb::device {

// By block, for each arm and each of two counts: the numbers of members, and of participants, of
// the chunks become the numbers before each chunk. Of few chunks they stay what they are.
struct CountBefore {
  State state;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t which) const {
    std::uint32_t* counts = which == 0 ? state.chunk_members : state.chunk_participants;
    const std::uint32_t all =
        block.exclusive_prefix(counts + arm * std::size_t{state.chunks}, state.chunks);
    block.once(
        [&] { (which == 0 ? state.totals[arm].members : state.totals[arm].participants) = all; });
  }
};

// How many there are before a chunk of an arm, where counts is chunk_members or chunk_participants.
template <class Block>
MCNB_ON_DEVICE std::uint32_t count_before(const State& state, Block& block,
                                          const std::uint32_t* counts, std::uint32_t arm,
                                          std::uint32_t chunk) {
  const std::uint32_t* own = counts + arm * std::size_t{state.chunks};
  return state.chunks > kFewChunks ? own[chunk]
                                   : block.sum(chunk, [&](std::uint32_t i) { return own[i]; });
}

// By block, for each chunk of an arm: every participant draws an event of its history.
struct DrawEvents {
  State state;

  template <class Block>
  MCNB_ON_DEVICE void operator()(Block& block, std::uint32_t arm, std::uint32_t chunk) const {
    const std::uint32_t* mask = state.masks + arm * std::size_t{state.words};
    const std::uint32_t offset = count_before(state, block, state.chunk_participants, arm, chunk);
    std::uint32_t* drawn = state.drawn + arm * std::size_t{state.users} + offset;
    EventUse* uses = state.uses + arm * state.event_capacity;
    const std::uint32_t key[2] = {state.task->keys[arm][0], state.task->keys[arm][1]};
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
          const std::uint32_t reference = state.refs[history.begin + position];
          drawn[rank] = reference;
          if ((reference & kSharedEvent) != 0) {
            EventUse& use = uses[reference & ~kSharedEvent];
            if (use.inverted_first < ~(offset + rank)) {  // which also holds if it is out of date
              block.atomic_max(&use.inverted_first, ~(offset + rank));
            }
            block.atomic_add(&use.count, 1U);
          }
        });
    if (state.chunks <= kFewChunks && chunk + 1 == state.chunks) {
      const std::uint32_t members =
          count_before(state, block, state.chunk_members, arm, state.chunks);
      block.once([&] {
        state.totals[arm].members = members;
        state.totals[arm].participants = offset + found;
      });
    }
  }
};

// Whether draw `position` is the first of its event.
MCNB_ON_DEVICE bool is_first_draw(const EventUse* uses, std::uint32_t reference,
                                  std::uint32_t position) {
  return (reference & kSharedEvent) == 0 ||
         uses[reference & ~kSharedEvent].inverted_first == ~position;
}

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
          return is_first_draw(uses, drawn[first + i], first + i) ? 1U : 0U;
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
        [&](std::uint32_t i) { return is_first_draw(uses, drawn[first + i], first + i); },
        [&](std::uint32_t i, std::uint32_t rank) {
          const std::uint32_t reference = drawn[first + i];
          const std::uint32_t event = reference & ~kSharedEvent;
          if ((reference & kSharedEvent) == 0) {
            draws[offset + rank] = {event, 1};
          } else {
            draws[offset + rank] = {event, uses[event].count};
            uses[event] = {0, 0};  // draws of the event that come later are still not its first
          }
        });
    if (first + kUsersPerChunk >= participants) {
      block.once([&] { state.totals[arm].draws = offset + found; });
    }
  }
};

}  // namespace mcnb::device
