#include "mcnb/bandit/mcnb/event_sums.h"

#include <algorithm>

namespace mcnb {

void EventSums::grow(std::size_t event_slots, std::size_t padded) {
  if (padded != padded_) {
    states_.clear();
    padded_ = padded;
  }
  states_.resize(event_slots);
  values_.resize(event_slots * padded);
}

void EventSums::clear() { std::ranges::fill(states_, kUnknown); }

void EventSums::forget(EventId event) {
  if (index(event) < states_.size()) {
    states_[index(event)] = kUnknown;
  }
}

std::size_t EventSums::memory_bytes() const {
  return states_.capacity() + values_.capacity() * sizeof(float);
}

}  // namespace mcnb
