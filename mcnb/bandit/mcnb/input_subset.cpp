#include "mcnb/bandit/mcnb/input_subset.h"

#include <algorithm>

namespace mcnb {

void InputSubset::use_only(std::span<const Features> features) {
  ranges_.clear();
  for (const Features& each : features) {
    ranges_.push_back({each.offset, each.offset + static_cast<std::uint32_t>(each.values.size())});
  }
  std::ranges::sort(ranges_, {}, &Range::begin);
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[i].begin < ranges_[last].end) {
      ranges_[last].end = std::max(ranges_[last].end, ranges_[i].end);
    } else {
      ranges_[++last] = ranges_[i];
    }
  }
  ranges_.resize(last + 1);
  std::uint32_t number = 0;
  for (Range& range : ranges_) {
    range.number = number;
    number += range.end - range.begin;
  }
}

std::uint32_t InputSubset::number_of(std::uint32_t input) const {
  if (is_all()) {
    return input;
  }
  const auto after = std::ranges::upper_bound(ranges_, input, {}, &Range::begin);
  const Range& range = *(after - 1);
  return range.number + (input - range.begin);
}

NetworkShape InputSubset::shape(const NetworkShape& whole) const {
  NetworkShape small = whole;
  if (!is_all()) {
    small.inputs = ranges_.back().number + ranges_.back().end - ranges_.back().begin;
  }
  return small;
}

template <class Action>
void InputSubset::for_each_span(const NetworkShape& whole, Action action) const {
  if (is_all()) {
    action(std::size_t{0}, whole.parameter_count());
    return;
  }
  for (const Range& range : ranges_) {
    action(std::size_t{range.begin} * whole.width, std::size_t{range.end} * whole.width);
  }
  action(std::size_t{whole.inputs} * whole.width, whole.parameter_count());
}

void InputSubset::extract(const NetworkShape& whole, std::span<const float> parameters,
                          std::vector<float>& small) const {
  small.clear();
  for_each_span(whole, [&](std::size_t begin, std::size_t end) {
    const std::span<const float> part = parameters.subspan(begin, end - begin);
    small.insert(small.end(), part.begin(), part.end());
  });
}

void InputSubset::write_back(const NetworkShape& whole, std::span<const float> small,
                             std::span<float> parameters) const {
  for_each_span(whole, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    std::ranges::copy(small.first(count), parameters.subspan(begin).begin());
    small = small.subspan(count);
  });
}

}  // namespace mcnb
