#pragma once

#include <cstddef>
#include <cstdint>

#include "mcnb/base/state_file.h"

namespace mcnb {

/// The number of a policy's users. Ids have 32 bits: more than 2^32 users throw Error (kLimit).
class UserCount {
 public:
  explicit UserCount(std::size_t count) { add(count); }

  std::size_t count() const { return count_; }
  void add(std::size_t count);

  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  std::size_t count_ = 0;
};

}  // namespace mcnb
