#include "mcnb/bandit/user_count.h"

#include <fmt/core.h>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 32;

}  // namespace

void UserCount::add(std::size_t count) {
  if (count > kMost - count_) {
    throw Error(ErrorKind::kLimit,
                fmt::format("users: at most {} can be told apart, got {} and {} more", kMost,
                            count_, count));
  }
  count_ += count;
}

void UserCount::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(count_));
}

void UserCount::load(StateReader& reader) {
  const auto count = reader.read<std::uint64_t>();
  if (count > kMost) {
    reader.fail("more users than can be told apart");
  }
  count_ = static_cast<std::size_t>(count);
}

}  // namespace mcnb
