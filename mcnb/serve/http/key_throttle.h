#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "mcnb/serve/http/client_address.h"

namespace mcnb {

// Slows down those who try keys: an address may send some wrong keys at once and one more every few
// seconds. Beyond that only keys that were right before, from the same address, are looked at, so
// that clients who share an address with somebody else go on. For one thread.
class KeyThrottle {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr double kWrongAtOnce = 10.0;
  static constexpr double kSecondsPerWrong = 6.0;
  static constexpr std::size_t kMostAddresses = 10'000;  // those seen longest ago are forgotten

  // Returns false if this key must not be looked at now.
  bool may_try(const ClientAddress& address, const std::string& digest, Time now);
  void note_right(const ClientAddress& address, const std::string& digest, Time now);
  // Returns how many keys of this address were not looked at since the last wrong key.
  std::uint64_t note_wrong(const ClientAddress& address, Time now);
  void forget_all() { addresses_.clear(); }

  std::size_t address_count() const { return addresses_.size(); }

 private:
  struct Record {
    double allowance = kWrongAtOnce;  // wrong keys that may come now
    Time last;
    std::set<std::string> right;  // digests of keys
    std::uint64_t ignored = 0;
  };
  Record& record_of(const ClientAddress& address, Time now);

  std::map<ClientAddress, Record> addresses_;
};

}  // namespace mcnb
