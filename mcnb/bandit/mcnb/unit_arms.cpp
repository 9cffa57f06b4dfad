#include "mcnb/bandit/mcnb/unit_arms.h"

#include <algorithm>
#include <cmath>

namespace mcnb {
namespace {

// The squares of all floats, and sums of many of them, are ordinary doubles.
double length_of(const Features& x) {
  double squares = 0.0;
  for (const float value : x.values) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

}  // namespace

Features UnitArms::scaled(const Features& x) {
  const double length = length_of(x);
  if (length == 0.0 || std::abs(length - 1.0) <= kRounding) {
    return x;
  }
  if (used_ == vectors_.size()) {
    vectors_.emplace_back();
  }
  std::vector<float>& to = vectors_[used_++];
  to.resize(x.values.size());
  std::ranges::transform(x.values, to.begin(),
                         [&](float value) { return static_cast<float>(value / length); });
  return {to, x.offset};
}

std::size_t UnitArms::memory_bytes() const {
  std::size_t bytes = vectors_.capacity() * sizeof vectors_[0];
  for (const std::vector<float>& vector : vectors_) {
    bytes += vector.capacity() * sizeof(float);
  }
  return bytes;
}

}  // namespace mcnb
