#include "mcnb/serve/http/connection_limits.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace mcnb {

double seconds_between(ConnectionLimits::Time begin, ConnectionLimits::Time end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Of the waiting connections that `may_go`: first those who are not trusted, of these the group
// with the most connections, and of it the one that has waited longest.
template <class MayGo>
std::optional<ConnectionLimits::Id> ConnectionLimits::first_to_go(const MayGo& may_go) const {
  using Rank = std::tuple<bool, std::size_t, Time>;
  std::optional<Id> found;
  Rank best;
  for (const auto& [id, guest] : guests_) {
    if (guest.waiting_since && may_go(guest)) {
      const Rank rank{guest.trusted, SIZE_MAX - *guest.group_size, *guest.waiting_since};
      if (!found || rank < best) {
        found = id;
        best = rank;
      }
    }
  }
  return found;
}

// What a new connection of the group can replace: at once one of a group that has more, also after
// the exchange, otherwise one that has waited for a while. If the group has its share, only one of
// its own.
std::optional<ConnectionLimits::Id> ConnectionLimits::replaceable(const ClientAddress& group,
                                                                  bool only_own, Time now) const {
  const auto known = groups_.find(group);
  const std::size_t own = known == groups_.end() ? 0 : known->second.count;
  return first_to_go([&](const Guest& guest) {
    const bool has_more = !only_own && !guest.trusted && *guest.group_size > own + 1;
    return (!only_own || guest.group == group) &&
           (has_more || seconds_between(*guest.waiting_since, now) >= kPatience);
  });
}

// Takes one of the reserved connections, from its client if that has sent nothing yet. No group
// gets more than half of them. Returns false if there is none.
bool ConnectionLimits::take_reserved(const ClientAddress& group, bool trusted, Entry& entry) const {
  const auto known = groups_.find(group);
  const std::size_t own = known == groups_.end() ? 0 : known->second.reserved;
  const bool has_half = !trusted && own >= std::max<std::size_t>(limits_.reserved / 2, 1);
  if (reserved_ < limits_.reserved && !has_half) {
    return true;
  }
  entry.to_replace = first_to_go(
      [&](const Guest& guest) { return guest.reserved && (!has_half || guest.group == group); });
  return entry.to_replace.has_value();
}

ConnectionLimits::Entry ConnectionLimits::enter(Id id, const ClientAddress& address, bool trusted,
                                                Time now) {
  Entry entry;
  const ClientAddress group = address.group();
  const auto known = groups_.find(group);
  const bool has_share = !trusted && limits_.most_per_address > 0 && known != groups_.end() &&
                         known->second.count - known->second.reserved >= limits_.most_per_address;
  bool reserved = false;
  if (has_share || guests_.size() - reserved_ >= limits_.most) {
    entry.to_replace = replaceable(group, has_share, now);
    reserved = !entry.to_replace;
    if (reserved && !take_reserved(group, trusted, entry)) {
      return entry;
    }
  }
  if (entry.to_replace) {
    reserved = guests_.at(*entry.to_replace).reserved;
    leave(*entry.to_replace);
  }
  Group& counts = groups_[group];
  ++counts.count;
  counts.reserved += reserved ? 1 : 0;
  reserved_ += reserved ? 1 : 0;
  entry.guest =
      &guests_.emplace(id, Guest{group, trusted, reserved, now, &counts.count}).first->second;
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
  const std::optional<Id> id = first_to_go(
      [&](const Guest& guest) { return seconds_between(*guest.waiting_since, now) >= kPatience; });
  if (id) {
    leave(*id);
  }
  return id;
}

}  // namespace mcnb
