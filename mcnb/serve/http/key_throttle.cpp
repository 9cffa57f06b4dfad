#include "mcnb/serve/http/key_throttle.h"

#include <algorithm>
#include <utility>

namespace mcnb {

KeyThrottle::Record& KeyThrottle::record_of(const ClientAddress& address, Time now) {
  const ClientAddress group = address.group();
  auto found = addresses_.find(group);
  if (found == addresses_.end()) {
    if (addresses_.size() >= kMostAddresses) {
      addresses_.erase(std::ranges::min_element(
          addresses_, {}, [](const auto& entry) { return entry.second.last; }));
    }
    found = addresses_.emplace(group, Record()).first;
    found->second.last = now;
  }
  Record& record = found->second;
  const double seconds = std::chrono::duration<double>(now - record.last).count();
  record.allowance = std::min(kWrongAtOnce, record.allowance + seconds / kSecondsPerWrong);
  record.last = now;
  return record;
}

bool KeyThrottle::may_try(const ClientAddress& address, const std::string& digest, Time now) {
  const auto found = addresses_.find(address.group());
  if (found == addresses_.end()) {
    return true;
  }
  Record& record = record_of(address, now);
  if (record.allowance >= 1.0 || record.right.contains(digest)) {
    return true;
  }
  ++record.ignored;
  return false;
}

void KeyThrottle::note_right(const ClientAddress& address, const std::string& digest, Time now) {
  record_of(address, now).right.insert(digest);
}

std::uint64_t KeyThrottle::note_wrong(const ClientAddress& address, Time now) {
  Record& record = record_of(address, now);
  record.allowance = std::max(0.0, record.allowance - 1.0);
  return std::exchange(record.ignored, 0);
}

}  // namespace mcnb
