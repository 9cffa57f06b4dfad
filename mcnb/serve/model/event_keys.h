#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mcnb {

// The id of the decision for a slot of an event. The first slot has the event's own id, so that no
// event has slots and none. '\x1f' (unit separator) stands between an event and its further slots.
std::string slot_event_id(std::string_view event_id, std::string_view slot, bool is_first);
// The id of the event whose slot has this id; of an event without slots, its own.
std::string_view event_of_slot(std::string_view slot_event_id);

// Hashes under which the service knows events and rewards. Stored states and the table of ids hold
// them. Never 0, except as said.

// `seed`: that of the model.
std::uint64_t event_id_key(std::string_view event_id, std::uint64_t seed);
// A reward of an event, by the event's key. 0 for a reward without an id.
std::uint64_t reward_id_key(std::uint64_t event, std::string_view reward_id);

}  // namespace mcnb
