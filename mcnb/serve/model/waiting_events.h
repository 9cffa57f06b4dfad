#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/serve/model/model_options.h"
#include "mcnb/serve/model/parted_map.h"

namespace mcnb {

// A decision that waits for its rewards.
struct WaitingEvent {
  std::uint64_t key = 0;           // hash of the event's id; the round's id
  std::uint64_t log_position = 0;  // of the decision
  std::uint64_t user = 0;          // hash of the user's name
  std::int64_t time = 0;
  std::uint32_t learner = 0;
  std::uint32_t arm = 0;  // index of the answer among the eligible actions
  bool active = true;
  bool learns = true;                     // false if the model only logged when it was decided
  float weight = 1.0F;                    // of the answer under random play (Outcome)
  std::vector<float> features;            // of the answer
  std::vector<float> rewards;             // in the order they came, at most kMostRewards
  std::vector<std::uint64_t> reward_ids;  // of `rewards`: hashes, 0 for none
};

// What is kept of an event after it has ended: enough to recognise it and its rewards.
struct EndedEvent {
  std::uint64_t log_position = 0;
  std::uint64_t user = 0;
  std::uint64_t reward_id = 0;           // of the reward that ended it; 0: none
  std::vector<std::uint64_t> other_ids;  // of other and late rewards, at most kMostRewards
};

// The events that wait for rewards, in the order of their decisions, and the latest of those that
// have ended. Times never go back, so the oldest event ends first.
class WaitingEvents {
 public:
  // Remembers at most so many ended events; the oldest are forgotten first.
  explicit WaitingEvents(std::size_t remembered) : remembered_(remembered) {}

  std::size_t size() const { return waiting_.size(); }
  std::size_t ended_count() const { return ended_.size(); }

  // Return nullptr for an event that is not waiting, or not remembered.
  WaitingEvent* find(std::uint64_t key);
  const EndedEvent* find_ended(std::uint64_t key) const;
  // The event that ends next; nullptr if none is waiting.
  const WaitingEvent* oldest();
  // The number of waiting events that were decided at or before `time`, at most `limit`.
  std::size_t count_until(std::int64_t time, std::size_t limit);

  // Requires a key that is neither waiting nor remembered.
  void add(WaitingEvent event);
  // Takes a waiting event out, and remembers that it ended and by which reward.
  WaitingEvent end(std::uint64_t key, std::uint64_t reward_id);
  WaitingEvent end_oldest();
  // Remembers the id of a reward that came after the event's end. Does nothing for an event that is
  // not remembered, or the id 0.
  void note_late(std::uint64_t key, std::uint64_t reward_id);
  // Drops all events of a user, waiting or ended.
  void forget(std::uint64_t user);

  // What one event takes at most without its features and rewards, waiting or ended.
  static constexpr double kMostEventBytes = sizeof(WaitingEvent) + 80.0;
  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // `has_weights`: false for a state from before events had them.
  void load(StateReader& reader, std::size_t dimension, std::size_t learners, bool has_weights);

 private:
  // Identifies a decision by its event's key and its log position: once an ended event is
  // forgotten, its id may be used again for another decision.
  struct Turn {
    std::uint64_t key = 0;
    std::uint64_t log_position = 0;
  };
  // Returns nullptr if that decision no longer waits.
  const WaitingEvent* waiting_at(const Turn& turn) const;
  void skip_ended();
  void remember(std::uint64_t key, EndedEvent ended);

  std::size_t remembered_;
  PartedMap<WaitingEvent> waiting_;
  std::deque<Turn> order_;  // all waiting decisions, among some that have ended
  PartedMap<EndedEvent> ended_;
  std::deque<std::uint64_t> ended_order_;
  std::size_t float_count_ = 0;  // in the features of waiting events
};

}  // namespace mcnb
