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

// What an arm looks like.
enum class ArmFeatures {
  kAuto,         // kItemAndUser under Protocol::kNotebook, kItem otherwise
  kItem,         // the item's vector
  kItemAndUser,  // the item's vector and that of the member who rated it, together of unit length
};

struct RecommendationOptions : RecommendationRecipe {
  std::uint64_t users = 50;
  std::uint64_t arms = 10;  // K in the paper
  ArmFeatures features = ArmFeatures::kAuto;
};
// All but the kind of the ratings, which a data set knows itself.
const OptionTable<RecommendationOptions>& recommendation_option_table();

// Rounds from ratings. A round: a user of the pool, uniformly; one arm among the pairs (member,
// item) that the user's members liked, all others among those that they did not, with replacement,
// in random order. The reward is 1 for the liked one, and nothing about it is random.
//
// Data and pool are shared, not copied. Arms of kItem borrow the item's features from the data;
// those of kItemAndUser are put together in a buffer of this object, two copies of ten numbers an
// arm: all pairs of MovieLens 25M, put together beforehand, would take a gigabyte.
class RecommendationWorld final : public Environment {
 public:
  // The pool must have been made of the data. Throws Error (kUsage) for options out of range.
  RecommendationWorld(std::shared_ptr<const RecommendationData> data,
                      std::shared_ptr<const UserPool> pool, const RecommendationOptions& options,
                      std::uint64_t seed);

  std::size_t user_count() const override { return pool_->user_count(); }
  std::uint32_t inputs() const override;
  std::string description() const override { return describe(*data_) + "; " + describe(*pool_); }
  // The centres of the users' members, at unit length.
  std::span<const float> user_features() const override { return pool_->features; }
  std::size_t user_feature_count() const override { return kRecommendationFeatures; }
  std::span<const StartDatum> start_data() const override { return start_data_; }
  const Round& next_round() override;
  float reward(ArmIndex arm) const override;
  double expected_reward(ArmIndex arm) const override { return reward(arm); }

  // Who rated the item of an arm of the round made last.
  std::size_t member(ArmIndex arm) const { return offered_[index(arm)].member; }

 private:
  struct Pair {
    std::uint32_t member;
    std::uint32_t item;
  };
  // Where the pairs of one kind lie.
  struct Pairs {
    const ItemLists* lists;
    // How many pairs the members before each place of the pool have, and all of them.
    std::vector<std::uint64_t> before;
  };

  Pairs find_pairs(const ItemLists& lists) const;
  std::uint64_t pair_count(const Pairs& pairs, std::size_t user) const;
  Pair draw(const Pairs& pairs, std::size_t user, Rng& rng) const;
  // Of a pair; `buffer` is for what is not in the data.
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
  std::vector<Pair> offered_;  // the arms of the round made last
  std::size_t liked_arm_ = 0;
  Round round_;
  std::uint64_t next_id_ = 0;
};

}  // namespace mcnb
