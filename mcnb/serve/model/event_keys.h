#pragma once

#include <cstdint>
#include <string_view>

namespace mcnb {

// Hashes under which the service knows events and rewards. Stored states and the table of ids hold
// them. Never 0, except as said.

// `seed`: that of the model.
std::uint64_t event_id_key(std::string_view event_id, std::uint64_t seed);
// A reward of an event, by the event's key. 0 for a reward without an id.
std::uint64_t reward_id_key(std::uint64_t event, std::string_view reward_id);

}  // namespace mcnb
