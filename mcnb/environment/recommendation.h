#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/base/random.h"
#include "mcnb/data/prepare/recommendation_data.h"
#include "mcnb/data/prepare/user_pool.h"
#include "mcnb/environment/environment.h"

namespace mcnb {

// The features of an arm.
enum class ArmFeatures {
  kAuto,         // kItemAndUser under Protocol::kNotebook, kItem otherwise
  kItem,         // the item's vector
  kItemAndUser,  // the item's vector and that of the member who rated it, together of unit length
};

struct RecommendationOptions : PreparationOptions {
  std::uint64_t users = 50;
  std::uint64_t arms = 10;  // K in the paper
  ArmFeatures features = ArmFeatures::kAuto;
};
// All options except the kind of ratings, which the data set decides.
const OptionTable<RecommendationOptions>& recommendation_option_table();

// Rounds from ratings. A round draws a user of the pool uniformly. One arm is drawn from the pairs
// (member, item) that the user's members liked, the others from the pairs that they did not like,
// with replacement and in random order. The reward is 1 for the liked pair and 0 for the others.
//
// Data and pool are shared, not copied. Arms of kItem borrow the item's features from the data.
// Arms of kItemAndUser are composed in a buffer of this object, since all pairs of MovieLens 25M
// together would take a gigabyte.
class RecommendationWorld final : public Environment {
 public:
  // The pool must have been made of the data. Throws Error (kUsage) for options out of range.
  RecommendationWorld(std::shared_ptr<const RecommendationData> data,
                      std::shared_ptr<const UserPool> pool, const RecommendationOptions& options,
                      std::uint64_t seed);

  std::size_t user_count() const override { return pool_->user_count(); }
  std::uint32_t inputs() const override;
  std::string description() const override { return describe(*data_) + "; " + describe(*pool_); }
  // The centres of the users' members, scaled to unit length.
  std::span<const float> user_features() const override { return pool_->features; }
  std::size_t user_feature_count() const override { return kRecommendationFeatures; }
  std::span<const StartDatum> start_data() const override { return start_data_; }
  const Round& next_round() override;
  float reward(ArmIndex arm) const override;
  double expected_reward(ArmIndex arm) const override { return reward(arm); }

  // The member who rated the item of an arm of the latest round.
  std::size_t member(ArmIndex arm) const { return offered_[index(arm)].member; }

 private:
  struct Pair {
    std::uint32_t member;
    std::uint32_t item;
  };
  // The pairs of one kind.
  struct Pairs {
    const ItemLists* lists;
    // before[i] is how many pairs the members before index i of the pool have; the last is the
    // total.
    std::vector<std::uint64_t> before;
  };

  Pairs find_pairs(const ItemLists& lists) const;
  std::uint64_t pair_count(const Pairs& pairs, std::size_t user) const;
  Pair draw(const Pairs& pairs, std::size_t user, Rng& rng) const;
  // The features of a pair; `buffer` is for features that have to be composed.
  Features features(Pair pair, std::span<float> buffer) const;
  void make_start_data();

  std::shared_ptr<const RecommendationData> data_;
  std::shared_ptr<const UserPool> pool_;
  std::uint64_t seed_;
  bool with_members_;
  Pairs liked_;
  Pairs not_liked_;
  std::vector<float> start_features_;
  std::vector<StartDatum> start_data_;
  std::vector<float> arm_features_;
  std::vector<Pair> offered_;  // the arms of the latest round
  std::size_t liked_arm_ = 0;
  Round round_;
  std::uint64_t next_id_ = 0;
};

}  // namespace mcnb
