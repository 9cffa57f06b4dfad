#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/serve/model/model_options.h"

namespace mcnb {

// A decision that waits for its rewards.
struct WaitingEvent {
  std::uint64_t key = 0;    // hash of the event's id; the round's id
  std::uint64_t place = 0;  // of the decision in the log
  std::uint64_t user = 0;   // hash of the user's name
  std::int64_t time = 0;
  std::uint32_t learner = 0;
  std::uint32_t arm = 0;  // the answer, and its features
  bool active = true;
  bool learns = true;  // false where the model only logged
  std::vector<float> features;
  std::vector<float> rewards;             // in the order they came, at most kMostRewards
  std::vector<std::uint64_t> reward_ids;  // hashes, 0 for none; beside `rewards`
};

// What is kept of an event after it has ended: enough to know it and its rewards again.
struct EndedEvent {
  std::uint64_t place = 0;
  std::uint64_t user = 0;
  std::uint64_t reward_id = 0;           // of the reward that ended it; 0: none
  std::vector<std::uint64_t> other_ids;  // of rewards before the end or too late, kMostRewards
};

// All events that still matter, in the order of their decisions. Times never go back, so the oldest
// end first. Ended ones are forgotten, oldest first, beyond a limit.
class WaitingEvents {
 public:
  explicit WaitingEvents(std::size_t remembered) : remembered_(remembered) {}

  std::size_t size() const { return waiting_.size(); }
  std::size_t ended_count() const { return ended_.size(); }

  // Nothing (nullptr) for events that are not waiting, or that nobody remembers.
  WaitingEvent* find(std::uint64_t key);
  const EndedEvent* find_ended(std::uint64_t key) const;
  // The one that ends next.
  const WaitingEvent* oldest();
  // How many of the oldest were decided at or before `time`, at most `limit`.
  std::size_t count_until(std::int64_t time, std::size_t limit);

  // Requires a key that is neither waiting nor remembered.
  void add(WaitingEvent event);
  // Takes a waiting event out and remembers that it ended, and by which reward.
  WaitingEvent end(std::uint64_t key, std::uint64_t reward_id);
  WaitingEvent end_oldest();
  // A reward came after the end: its id is known from now on. Nothing for events that have not
  // ended, and for ids that are 0.
  void note_late(std::uint64_t key, std::uint64_t reward_id);
  // Drops all events of a user, waiting or ended.
  void forget(std::uint64_t user);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader, std::size_t dimension, std::size_t learners);

 private:
  // A decision, by the hash of its event's id and its place in the log: an id may be used again
  // once nobody remembers it, and is then another decision.
  struct Turn {
    std::uint64_t key = 0;
    std::uint64_t place = 0;
  };
  // Nothing where that decision waits no longer.
  const WaitingEvent* waiting_at(const Turn& turn) const;
  void skip_ended();
  void remember(std::uint64_t key, EndedEvent ended);

  std::size_t remembered_;
  std::unordered_map<std::uint64_t, WaitingEvent> waiting_;
  std::deque<Turn> order_;  // of decisions; some have ended
  std::unordered_map<std::uint64_t, EndedEvent> ended_;
  std::deque<std::uint64_t> ended_order_;
  std::size_t float_count_ = 0;  // in the features of waiting events
};

}  // namespace mcnb
