#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/ids.h"
#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

enum class EventId : std::uint32_t {};  // place of a stored (x, r)

// Who has seen which (x, r). Histories of users that agree overlap, so an event is stored once and
// a history is a list of references, four bytes each (six with room to grow).
//
// With a limit, a history is a uniform sample of all that ever joined it (a reservoir, its draws
// addressed by user and count), and events that no history holds any more give their place to new
// ones: memory stays bounded in endless runs.
class Histories {
 public:
  // `limit` 0: unbounded.
  Histories(std::uint64_t seed, std::size_t limit) : seed_(seed), limit_(limit) {}

  void add_users(std::size_t count);
  std::size_t user_count() const { return references_.size(); }

  // Stores an event that joins the histories of these users, and returns its place, which is free
  // again where no reservoir took it. Throws Error (kLimit) beyond 2^32 - 1 events.
  EventId add(std::span<const UserId> users, const Sample& sample);

  std::size_t size(UserId user) const { return references_[index(user)].size(); }
  EventId event(UserId user, std::size_t place) const {
    return EventId{references_[index(user)][place]};
  }
  const std::vector<std::uint32_t>& events(UserId user) const { return references_[index(user)]; }

  // Asks the memory for what will soon be read.
  void fetch(UserId user) const { __builtin_prefetch(references_[index(user)].data()); }
  void fetch(EventId event) const {
    __builtin_prefetch(&places_[index(event)]);
    __builtin_prefetch(values_.data() + index(event) * stride_);
  }

  // Borrowed until the next change. A free place has no features.
  Sample sample(EventId event) const {
    const Place& place = places_[index(event)];
    return {{{values_.data() + index(event) * stride_, place.count}, place.offset}, place.reward};
  }

  // Room for events: ids are below this. Some of them may be free.
  std::size_t event_slots() const { return places_.size(); }

  std::vector<Sample> samples_of(UserId user) const;
  // Every stored event once.
  std::vector<Sample> all_samples() const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Requires a store of the same seed and limit; refuses what does not fit `shape`.
  void load(StateReader& reader, const NetworkShape& shape);

 private:
  struct Place {
    std::uint32_t offset;
    std::uint32_t count;  // of features; 0 where the place is free
    float reward;
    std::uint32_t holders;  // histories that refer to it
  };

  EventId store(const Sample& sample);
  void join(UserId user, std::uint32_t event);
  void release(std::uint32_t event);

  std::uint64_t seed_;
  std::size_t limit_;
  std::vector<std::vector<std::uint32_t>> references_;  // by user
  std::vector<std::uint64_t> joined_;                   // by user, only with a limit
  std::vector<Place> places_;
  std::vector<float> values_;  // stride_ floats an event
  std::size_t stride_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace mcnb
