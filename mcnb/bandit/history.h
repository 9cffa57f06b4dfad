#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "mcnb/base/ids.h"
#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

enum class EventId : std::uint32_t {};  // slot of a stored (x, r)

// The events (x, r) that each user has seen. Histories of users that agree overlap, so an event is
// stored once and a history is a list of references, four bytes each (six with room to grow).
//
// With a limit, a history is a uniform sample of all events that ever joined it (a reservoir, its
// draws addressed by user and count), and the slots of events that no history holds any more are
// reused: memory stays bounded in endless runs.
class Histories {
 public:
  // `limit` 0: unbounded.
  Histories(std::uint64_t seed, std::size_t limit) : seed_(seed), limit_(limit) {}

  void add_users(std::size_t count);
  std::size_t user_count() const { return references_.size(); }

  // Stores an event that joins the histories of these users, and returns its slot. The slot is free
  // again if no reservoir took the event. Throws Error (kLimit) beyond 2^32 - 1 events.
  EventId add(std::span<const UserId> users, const Sample& sample);

  // Replaces everything: these events, in the order of their slots, and which of them each user
  // holds. The slots of events that nobody holds are free. Requires no limit.
  void assign(std::span<const Sample> events,
              std::span<const std::vector<std::uint32_t>> references);

  // Empties the history of a user. Events that other users hold stay.
  void forget(UserId user);

  std::size_t size(UserId user) const { return references_[index(user)].size(); }
  EventId event(UserId user, std::size_t position) const {
    return EventId{references_[index(user)][position]};
  }
  const std::vector<std::uint32_t>& events(UserId user) const { return references_[index(user)]; }

  // Prefetches memory that will soon be read.
  void fetch(UserId user) const { __builtin_prefetch(references_[index(user)].data()); }
  void fetch(EventId event) const {
    __builtin_prefetch(&slots_[index(event)]);
    __builtin_prefetch(values_.data() + index(event) * stride_);
  }

  // Borrowed until the next change. A free slot has no features.
  Sample sample(EventId event) const {
    const Slot& slot = slots_[index(event)];
    return {{{values_.data() + index(event) * stride_, slot.count}, slot.offset}, slot.reward};
  }

  // The number of slots, free ones included: event ids are below it.
  std::size_t event_slots() const { return slots_.size(); }

  std::vector<Sample> samples_of(UserId user) const;
  // Every stored event once.
  std::vector<Sample> all_samples() const;

  // Kept up to date: does not look at the users. `count_memory_bytes` does.
  std::size_t memory_bytes() const;
  std::size_t count_memory_bytes() const;
  void save(StateWriter& writer) const;
  // Requires histories with the same seed and limit. Throws Error (kCorrupt) if the state is not
  // one that `save` can have written for networks of this shape.
  void load(StateReader& reader, const NetworkShape& shape);

 private:
  // Written raw into saved states.
  struct Slot {
    std::uint32_t offset;
    std::uint32_t count;  // of features; 0 if the slot is free
    float reward;
    std::uint32_t holders;  // histories that refer to it

    using Stored = StoredInOrder<&Slot::offset, &Slot::count, &Slot::reward, &Slot::holders>;
  };

  EventId store(const Sample& sample);
  void join(UserId user, std::uint32_t event);
  void release(std::uint32_t event);
  std::size_t memory_bytes_with(std::size_t held_references) const;

  std::uint64_t seed_;
  std::size_t limit_;
  std::vector<std::vector<std::uint32_t>> references_;  // by user
  std::size_t held_references_ = 0;                     // that they have room for
  std::vector<std::uint64_t> joined_;                   // by user: events so far; only with a limit
  std::vector<Slot> slots_;
  std::vector<float> values_;  // stride_ floats for every slot
  std::size_t stride_ = 0;
  std::vector<std::uint32_t> free_;  // slots
};

}  // namespace mcnb
