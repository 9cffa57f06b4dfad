#include "mcnb/base/piece_cutter.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mcnb {
namespace {

// A random number for each value of a byte (splitmix64). Stored pieces depend on them: other
// numbers would still read old snapshots, but find none of their pieces again.
constexpr std::array<std::uint64_t, 256> kRandom = [] {
  std::array<std::uint64_t, 256> numbers{};
  std::uint64_t state = 0;
  for (std::uint64_t& number : numbers) {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    number = mixed ^ (mixed >> 31);
  }
  return numbers;
}();

// The upper bits depend on all of the last 64 bytes. As many as make kUsual the average length.
constexpr std::uint64_t kMask = ~(~std::uint64_t{0} >> 12);
static_assert(PieceCutter::kLeast + (std::size_t{1} << 12) == PieceCutter::kUsual);

}  // namespace

PieceCutter::PieceCutter(Take take) : take_(std::move(take)) { piece_.reserve(kMost); }

void PieceCutter::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t begun = piece_.size();
    const std::size_t room = std::min(bytes.size(), kMost - begun);
    std::size_t end = std::min(room, kLeast - std::min(begun, kLeast));  // no cut lies before
    bool cut = false;
    std::uint64_t hash = hash_;
    while (end < room && !cut) {
      hash = (hash << 1) + kRandom[static_cast<unsigned char>(bytes[end++])];
      cut = (hash & kMask) == 0;
    }
    hash_ = hash;
    cut = cut || begun + end == kMost;
    if (cut && begun == 0) {
      take_(bytes.substr(0, end));
      hash_ = 0;
    } else {
      piece_.append(bytes.substr(0, end));
      if (cut) {
        finish();
      }
    }
    bytes.remove_prefix(end);
  }
}

void PieceCutter::finish() {
  if (!piece_.empty()) {
    take_(piece_);
    piece_.clear();
  }
  hash_ = 0;
}

}  // namespace mcnb
