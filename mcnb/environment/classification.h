#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/base/random.h"
#include "mcnb/data/prepare/classification_data.h"
#include "mcnb/environment/environment.h"

namespace mcnb {

// Who an arm belongs to.
enum class ArmUser {
  kArm,    // the user of the arm's class
  kLabel,  // the user of the sample's true class, for all arms. This reveals the answer; it exists
           // to compare with code that does so
};

struct ClassificationOptions {
  ArmUser user = ArmUser::kArm;
};
const OptionTable<ClassificationOptions>& classification_option_table();

// Rounds from labelled samples: one sample, drawn with replacement, and an arm for each class. Arm
// i has the sample as block i of an otherwise zero vector; its reward is 1 for the true class.
//
// If there are several sets of samples, every round comes from one of them with equal probability.
// The users of the second set follow those of the first, and so on; all sets use the same blocks.
// Samples are shared, never copied.
class ClassificationWorld final : public Environment {
 public:
  // Throws Error (kUsage) unless all sets have equally many classes, at least two, and samples of
  // the same length.
  ClassificationWorld(std::vector<std::shared_ptr<const ClassificationData>> sets,
                      const ClassificationOptions& options, std::uint64_t seed);

  std::size_t user_count() const override { return sets_.size() * classes_; }
  std::uint32_t inputs() const override;
  std::string description() const override;
  std::uint32_t block_length() const override { return static_cast<std::uint32_t>(dimension_); }
  // With ArmUser::kArm, a random sample of the user's set in the block of the user's class; with
  // kLabel, a sample of the user's class in a random block.
  std::span<const StartDatum> start_data() const override { return start_data_; }
  const Round& next_round() override;
  float reward(ArmIndex arm) const override;
  double expected_reward(ArmIndex arm) const override { return reward(arm); }

 private:
  const Samples& samples(std::size_t set) const { return sets_[set]->samples; }
  Features block(std::size_t set, std::size_t sample, std::size_t number) const;
  void make_start_data();

  std::vector<std::shared_ptr<const ClassificationData>> sets_;
  ArmUser arm_user_;
  std::uint64_t seed_;
  std::size_t classes_;
  std::size_t dimension_;
  std::vector<StartDatum> start_data_;
  std::size_t label_ = 0;  // of the latest round
  Round round_;
  std::uint64_t next_id_ = 0;
};

}  // namespace mcnb
