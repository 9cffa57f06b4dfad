#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/bandit/history.h"

namespace mcnb {

// W_1 x of stored events under one network, each computed when it is first asked for and kept until
// the network changes. `find` may run on several threads at a time, the other functions may not.
class EventSums {
 public:
  // Makes room for events below `event_slots`, with `padded` numbers each. Known sums stay, unless
  // `padded` is another one.
  void grow(std::size_t event_slots, std::size_t padded);
  // The network has changed.
  void clear();
  // The slot has another event now.
  void forget(EventId event);

  // The sums of an event, which compute(float* sums) fills in if they are not known. If another
  // thread is computing them, or there is no room for the event, this thread computes them in
  // `room`, which has `padded` numbers; the numbers are the same.
  template <class Compute>
  const float* find(EventId event, float* room, Compute compute) const {
    if (index(event) >= states_.size()) {
      compute(room);
      return room;
    }
    float* const kept = values_.data() + index(event) * padded_;
    const std::atomic_ref state(states_[index(event)]);
    std::uint8_t found = state.load(std::memory_order_acquire);
    if (found == kUnknown &&
        state.compare_exchange_strong(found, kInWork, std::memory_order_acquire)) {
      compute(kept);
      state.store(kKnown, std::memory_order_release);
      return kept;
    }
    if (found == kKnown) {
      return kept;
    }
    compute(room);
    return room;
  }

  std::size_t memory_bytes() const;

 private:
  static constexpr std::uint8_t kUnknown = 0;
  static constexpr std::uint8_t kInWork = 1;
  static constexpr std::uint8_t kKnown = 2;

  std::size_t padded_ = 0;
  mutable std::vector<std::uint8_t> states_;  // by event
  mutable std::vector<float> values_;         // padded_ for each event
};

}  // namespace mcnb
