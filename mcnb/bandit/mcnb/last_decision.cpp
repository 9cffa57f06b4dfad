#include "mcnb/bandit/mcnb/last_decision.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

ArmIndex index_of(const Candidate& candidate) { return candidate.arm.index; }

bool same_features(const Features& a, const Features& b) {
  return a.offset == b.offset && std::ranges::equal(a.values, b.values);
}

}  // namespace

void LastDecision::remember(std::span<const Candidate> arms, std::vector<FoundCluster> clusters) {
  check(clusters.size() == arms.size(), "every arm has a cluster");
  arms_.assign(arms.begin(), arms.end());
  clusters_.assign(std::move_iterator(clusters.begin()), std::move_iterator(clusters.end()));
  std::size_t count = 0;
  for (const Candidate& candidate : arms_) {
    count += candidate.arm.features.values.size();
  }
  values_.resize(count);
  float* to = values_.data();
  for (Candidate& candidate : arms_) {
    std::span<const float>& values = candidate.arm.features.values;
    std::ranges::copy(values, to);
    values = {to, values.size()};
    to += values.size();
  }
}

void LastDecision::clear() {
  arms_.clear();
  clusters_.clear();
}

std::optional<FoundCluster> LastDecision::take(RoundId round, const Arm& arm) {
  const auto found = std::ranges::lower_bound(arms_, arm.index, {}, index_of);
  if (found == arms_.end() || found->round != round || found->arm.index != arm.index ||
      found->arm.user != arm.user || !same_features(found->arm.features, arm.features)) {
    return std::nullopt;
  }
  return std::exchange(clusters_[static_cast<std::size_t>(found - arms_.begin())], std::nullopt);
}

std::size_t LastDecision::memory_bytes() const {
  std::size_t bytes = arms_.capacity() * sizeof(Candidate) + values_.capacity() * sizeof(float) +
                      clusters_.capacity() * sizeof clusters_[0];
  for (const std::optional<FoundCluster>& cluster : clusters_) {
    bytes += cluster ? cluster->members.capacity() * sizeof(UserId) : 0;
  }
  return bytes;
}

}  // namespace mcnb
