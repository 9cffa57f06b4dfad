#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb::python {

// The rounds of the last `choose`, as far as it takes to know them again.
class DecidedRounds {
 public:
  // Replaces those remembered so far.
  void remember(std::span<const Round> rounds);
  void clear() { rounds_.clear(); }

  // Gives rounds with the users, items and features of a remembered one its id; the others keep
  // theirs. Equal rounds of a batch are told apart by their positions.
  void name_again(std::span<Round> rounds) const;

  // Files of version 1 do not hold them.
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  struct Decided {
    RoundId id{};
    std::uint64_t fingerprint = 0;

    bool operator==(const Decided&) const = default;
    using Stored = StoredInOrder<&Decided::id, &Decided::fingerprint>;
  };

  std::vector<Decided> rounds_;
};

}  // namespace mcnb::python
