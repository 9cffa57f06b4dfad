#include "mcnb/bandit/linear/item_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mcnb/numeric/kmeans.h"

namespace mcnb {
namespace {

// The squared distance of the whole vectors of which the features are blocks.
double squared_distance(const Features& a, const Features& b) {
  double sum = 0.0;
  if (a.offset == b.offset && a.values.size() == b.values.size()) {
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      const double step = static_cast<double>(a.values[i]) - b.values[i];
      sum += step * step;
    }
    return sum;
  }
  for (const Features* features : {&a, &b}) {  // blocks are equal or disjoint
    for (const float value : features->values) {
      sum += static_cast<double>(value) * value;
    }
  }
  return sum;
}

}  // namespace

std::optional<std::uint32_t> ItemTable::key(const Arm& arm,
                                            std::optional<std::uint32_t> block) const {
  switch (identity_) {
    case Identity::kIds:
      return has_id(arm) ? std::optional(static_cast<std::uint32_t>(arm.item)) : std::nullopt;
    case Identity::kBlocks:
      return block ? std::optional(static_cast<std::uint32_t>(*block % kMost)) : std::nullopt;
    case Identity::kGroups:
      break;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> ItemTable::nearest(const Features& features) const {
  std::optional<std::uint32_t> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t item = 0; item < size(); ++item) {
    const double distance = squared_distance(features, this->features(item));
    if (distance < least) {
      least = distance;
      best = item;
    }
  }
  return best;
}

std::optional<std::uint32_t> ItemTable::find(const Arm& arm,
                                             std::optional<std::uint32_t> block) const {
  if (const std::optional<std::uint32_t> number = key(arm, block)) {
    if (const auto found = item_of_.find(*number); found != item_of_.end()) {
      return found->second;
    }
  }
  return nearest(arm.features);
}

void ItemTable::gather(const Features& features) {
  if (features.values.size() == inputs_ && sample_.size() < wanted_sample()) {
    sample_.insert(sample_.end(), features.values.begin(), features.values.end());
  }
}

void ItemTable::make_groups() {
  const KMeans found = k_means(sample_, inputs_, options_.groups, seed_);
  for (auto centre = found.centres.begin(); centre != found.centres.end(); centre += inputs_) {
    values_.emplace_back(centre, centre + inputs_);
    offsets_.push_back(0);
  }
}

ItemTable::Meeting ItemTable::learn(const Arm& arm, std::uint32_t block) {
  gather(arm.features);
  Meeting meeting;
  const auto is_known = [&] { return item_of_.count(static_cast<std::uint32_t>(arm.item)) != 0; };
  if (identity_ == Identity::kIds && (!has_id(arm) || (size() == options_.most && !is_known()))) {
    identity_ = arm.features.values.size() < inputs_ ? Identity::kBlocks : Identity::kGroups;
    item_of_.clear();
    keys_.clear();
    values_.clear();
    offsets_.clear();
    meeting.began_anew = true;
  }
  if (identity_ == Identity::kGroups) {
    if (size() == 0 && sample_.size() == wanted_sample()) {
      make_groups();
    }
    meeting.item = nearest(arm.features);
    return meeting;
  }
  const std::uint32_t number = key(arm, block).value();
  const auto next = static_cast<std::uint32_t>(size());
  if (item_of_.count(number) == 0) {
    meeting.like = nearest(arm.features);
    item_of_.emplace(number, next);
    keys_.push_back(number);
    values_.emplace_back();
    offsets_.push_back(0);
  }
  const std::uint32_t item = item_of_.at(number);
  values_[item].assign(arm.features.values.begin(), arm.features.values.end());
  offsets_[item] = arm.features.offset;
  meeting.item = item;
  return meeting;
}

std::size_t ItemTable::memory_bytes() const {
  std::size_t bytes = sizeof *this + item_of_.size() * (2 * sizeof(std::uint32_t) + sizeof(void*)) +
                      item_of_.bucket_count() * sizeof(void*) + keys_.capacity() * sizeof keys_[0] +
                      values_.capacity() * sizeof values_[0] +
                      offsets_.capacity() * sizeof offsets_[0] +
                      sample_.capacity() * sizeof sample_[0];
  for (const std::vector<float>& values : values_) {
    bytes += values.capacity() * sizeof values[0];
  }
  return bytes;
}

void ItemTable::save(StateWriter& writer) const {
  writer.write(identity_);
  writer.write_all(keys_);
  writer.write_all(offsets_);
  for (const std::vector<float>& values : values_) {
    writer.write_all(values);
  }
  writer.write_all(sample_);
}

void ItemTable::load(StateReader& reader, const FeatureBlocks& blocks) {
  const auto all_finite = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  identity_ = Identity{reader.read<std::uint32_t>()};
  keys_ = reader.read_all<std::uint32_t>(kMost);
  offsets_ = reader.read_all<std::uint32_t>(kMost);
  const bool grouped = identity_ == Identity::kGroups;
  if (identity_ > Identity::kGroups || (grouped ? !keys_.empty() : keys_.size() != size()) ||
      size() > (grouped                       ? options_.groups
                : identity_ == Identity::kIds ? options_.most
                                              : kMost)) {
    reader.fail("an item table has an unknown kind or a wrong number of items");
  }
  item_of_.clear();
  for (std::uint32_t item = 0; item < keys_.size(); ++item) {
    const bool possible =
        identity_ == Identity::kIds ? ItemId{keys_[item]} != kNoItem : keys_[item] < kMost;
    if (!possible || !item_of_.emplace(keys_[item], item).second) {
      reader.fail("an item is known twice, or has a number that none can have");
    }
  }
  values_.clear();
  for (const std::uint32_t offset : offsets_) {
    values_.push_back(reader.read_all<float>(inputs_));
    if (!blocks.find({values_.back(), offset}) || !all_finite(values_.back())) {
      reader.fail("the features of an item do not fit the blocks, or are not finite");
    }
  }
  sample_ = reader.read_all<float>(wanted_sample());
  if (sample_.size() % inputs_ != 0 || !all_finite(sample_)) {
    reader.fail("features gathered for groups of items do not fit, or are not finite");
  }
}

}  // namespace mcnb
