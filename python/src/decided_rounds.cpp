#include "python/src/decided_rounds.h"

#include <algorithm>

#include "mcnb/base/hash.h"

namespace mcnb::python {
namespace {

constexpr std::uint64_t kMostRounds = std::uint64_t{1} << 32;

// Equal for rounds with the same arms, whatever their ids.
std::uint64_t fingerprint_of(const Round& round) {
  std::uint64_t hash = 0;
  for (const Arm& arm : round.arms) {
    const std::uint64_t facts[] = {index(arm.user), static_cast<std::uint64_t>(arm.item),
                                   arm.features.offset};
    const std::span<const float> values = arm.features.values;
    hash = hash_bytes({reinterpret_cast<const char*>(facts), sizeof facts}, hash);
    hash = hash_bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, hash);
  }
  return hash;
}

}  // namespace

void DecidedRounds::remember(std::span<const Round> rounds) {
  rounds_.clear();
  for (const Round& round : rounds) {
    rounds_.push_back({round.id, fingerprint_of(round)});
  }
}

void DecidedRounds::name_again(std::span<Round> rounds) const {
  for (std::size_t i = 0; i < rounds.size() && !rounds_.empty(); ++i) {
    const std::uint64_t fingerprint = fingerprint_of(rounds[i]);
    const bool is_in_place = i < rounds_.size() && rounds_[i].fingerprint == fingerprint;
    const auto found = is_in_place ? rounds_.begin() + static_cast<std::ptrdiff_t>(i)
                                   : std::ranges::find(rounds_, fingerprint, &Decided::fingerprint);
    if (found != rounds_.end()) {
      rounds[i].id = found->id;
    }
  }
}

void DecidedRounds::save(StateWriter& writer) const { writer.write_all(rounds_); }

void DecidedRounds::load(StateReader& reader) {
  rounds_.clear();
  if (reader.version() > 1) {
    rounds_ = reader.read_all<Decided>(kMostRounds);
  }
}

}  // namespace mcnb::python
