#include "mcnb/serve/model/event_keys.h"

#include <algorithm>

#include "mcnb/base/hash.h"

namespace mcnb {
namespace {

constexpr char kSlotMark = '\x1f';

}  // namespace

std::string slot_event_id(std::string_view event_id, std::string_view slot, bool is_first) {
  std::string id(event_id);
  if (!is_first) {
    id += kSlotMark;
    id += slot;
  }
  return id;
}

std::string_view event_of_slot(std::string_view slot_event_id) {
  return slot_event_id.substr(0, slot_event_id.find(kSlotMark));
}

std::uint64_t event_id_key(std::string_view event_id, std::uint64_t seed) {
  return std::max<std::uint64_t>(hash_bytes(event_id, seed), 1);
}

std::uint64_t reward_id_key(std::uint64_t event, std::string_view reward_id) {
  return reward_id.empty() ? 0 : std::max<std::uint64_t>(hash_bytes(reward_id, event), 1);
}

}  // namespace mcnb
