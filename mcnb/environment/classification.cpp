#include "mcnb/environment/classification.h"

#include <fmt/core.h>

#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {

const OptionTable<ClassificationOptions>& classification_option_table() {
  using Options = ClassificationOptions;
  static const OptionTable<Options> table = OptionTable<Options>().choice(
      "user", &Options::user, {{"arm", ArmUser::kArm}, {"label", ArmUser::kLabel}},
      "who an arm belongs to: the arm's class, or the true class (which gives the answer away)");
  return table;
}

ClassificationWorld::ClassificationWorld(
    std::vector<std::shared_ptr<const ClassificationData>> sets,
    const ClassificationOptions& options, std::uint64_t seed)
    : sets_(std::move(sets)), arm_user_(options.user), seed_(seed) {
  check(!sets_.empty(), "there are samples");
  classes_ = samples(0).class_count();
  dimension_ = samples(0).dimension;
  if (classes_ < 2 || classes_ > kMostArms ||
      classes_ * dimension_ > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("classification: expected 2 to {} classes, found {} of {} numbers each",
                            kMostArms, classes_, dimension_));
  }
  for (const auto& set : sets_) {
    if (set->samples.class_count() != classes_ || set->samples.dimension != dimension_) {
      throw Error(
          ErrorKind::kUsage,
          fmt::format("classification: expected {} classes and {} numbers a sample in every "
                      "set, found {} and {}",
                      classes_, dimension_, set->samples.class_count(), set->samples.dimension));
    }
    check(set->samples.size() > 0, "every set has samples");
  }
  for (std::size_t i = 0; i < classes_; ++i) {
    round_.arms.push_back({.index = ArmIndex{static_cast<std::uint32_t>(i)}});
  }
  make_start_data();
}

std::string ClassificationWorld::description() const {
  std::string text;
  for (const auto& set : sets_) {
    text += (text.empty() ? "" : "; ") + describe(*set);
    if (const ReadReport& report = set->samples.report; !report.skipped.empty()) {
      text += "; " + report.text();
    }
  }
  return text;
}

std::uint32_t ClassificationWorld::inputs() const {
  return static_cast<std::uint32_t>(classes_ * dimension_);
}

Features ClassificationWorld::block(std::size_t set, std::size_t sample, std::size_t number) const {
  return {samples(set).row(sample), static_cast<std::uint32_t>(number * dimension_)};
}

void ClassificationWorld::make_start_data() {
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    std::vector<std::vector<std::size_t>> by_class(classes_);
    for (std::size_t k = 0; arm_user_ == ArmUser::kLabel && k < samples(set).size(); ++k) {
      by_class[samples(set).labels[k]].push_back(k);
    }
    for (std::size_t own = 0; own < classes_; ++own) {
      const std::size_t user = set * classes_ + own;
      Rng rng(seed_, Stream::kStartData, user);
      auto sample = static_cast<std::size_t>(rng.below(samples(set).size()));
      std::size_t arm = own;
      if (!by_class[own].empty()) {
        sample = by_class[own][static_cast<std::size_t>(rng.below(by_class[own].size()))];
        arm = static_cast<std::size_t>(rng.below(classes_));
      }
      const bool is_true = samples(set).labels[sample] == arm;
      start_data_.push_back({UserId{static_cast<std::uint32_t>(user)},
                             {block(set, sample, arm), is_true ? 1.0F : 0.0F}});
    }
  }
}

const Round& ClassificationWorld::next_round() {
  Rng rng(seed_, Stream::kRounds, next_id_);
  round_.id = RoundId{next_id_++};
  const auto set = static_cast<std::size_t>(rng.below(sets_.size()));
  const auto sample = static_cast<std::size_t>(rng.below(samples(set).size()));
  label_ = samples(set).labels[sample];
  for (std::size_t i = 0; i < classes_; ++i) {
    const std::size_t user = set * classes_ + (arm_user_ == ArmUser::kArm ? i : label_);
    round_.arms[i].user = UserId{static_cast<std::uint32_t>(user)};
    round_.arms[i].features = block(set, sample, i);
  }
  return round_;
}

float ClassificationWorld::reward(ArmIndex arm) const {
  check(index(arm) < classes_, "the arm is one of the round");
  return index(arm) == label_ ? 1.0F : 0.0F;
}

}  // namespace mcnb
