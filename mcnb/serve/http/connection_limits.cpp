#include "mcnb/serve/http/connection_limits.h"

#include <algorithm>
#include <tuple>

namespace mcnb {

// The connection that has waited longest, of `group`; or of all, then first of those who are not
// trusted, and of those the group with the most connections.
std::optional<ConnectionLimits::Id> ConnectionLimits::replaceable(const ClientAddress* group,
                                                                  Time now) const {
  using Rank = std::tuple<bool, std::size_t, Time::duration>;
  std::optional<Id> found;
  Rank best;
  for (const auto& [id, guest] : guests_) {
    if (!guest.waiting_since || (group != nullptr && guest.group != *group)) {
      continue;
    }
    const Time::duration waited = now - *guest.waiting_since;
    if (std::chrono::duration<double>(waited).count() < kPatience) {
      continue;
    }
    const std::size_t together = group == nullptr ? groups_.at(guest.group).count : 0;
    const Rank rank{!guest.trusted, together, waited};
    if (!found || rank > best) {
      found = id;
      best = rank;
    }
  }
  return found;
}

ConnectionLimits::Entry ConnectionLimits::enter(Id id, const ClientAddress& address, bool trusted,
                                                Time now) {
  Entry entry;
  bool reserved = false;
  const ClientAddress group_of_client = address.group();
  const auto known = groups_.find(group_of_client);
  const Group before = known == groups_.end() ? Group() : known->second;
  if (!trusted && limits_.most_per_address > 0 && before.count >= limits_.most_per_address) {
    entry.to_replace = replaceable(&group_of_client, now);
    if (!entry.to_replace) {
      return entry;
    }
  } else if (guests_.size() - reserved_ >= limits_.most) {
    entry.to_replace = replaceable(nullptr, now);
    reserved = !entry.to_replace;
    // No address takes all of the reserve.
    const bool too_many = before.reserved >= std::max<std::size_t>(limits_.reserved / 2, 1);
    if (reserved && (reserved_ >= limits_.reserved || (too_many && !trusted))) {
      return entry;
    }
  }
  if (entry.to_replace) {
    reserved = guests_.at(*entry.to_replace).reserved;
    leave(*entry.to_replace);
  }
  Group& group = groups_[group_of_client];
  ++group.count;
  group.reserved += reserved ? 1 : 0;
  reserved_ += reserved ? 1 : 0;
  entry.guest = &guests_.emplace(id, Guest{group_of_client, trusted, reserved, now}).first->second;
  return entry;
}

void ConnectionLimits::leave(Id id) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) {
    return;
  }
  const Guest& guest = found->second;
  const auto group = groups_.find(guest.group);
  group->second.reserved -= guest.reserved ? 1 : 0;
  reserved_ -= guest.reserved ? 1 : 0;
  if (--group->second.count == 0) {
    groups_.erase(group);
  }
  guests_.erase(found);
}

std::optional<ConnectionLimits::Id> ConnectionLimits::give_up_one(Time now) {
  const std::optional<Id> id = replaceable(nullptr, now);
  if (id) {
    leave(*id);
  }
  return id;
}

}  // namespace mcnb
