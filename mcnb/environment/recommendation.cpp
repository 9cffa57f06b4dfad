#include "mcnb/environment/recommendation.h"

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr float kHalf =
    0.70710678118654752F;  // two unit vectors, scaled by this, make one unit vector

bool with_members(const RecommendationOptions& options) {
  return options.features == ArmFeatures::kItemAndUser ||
         (options.features == ArmFeatures::kAuto && options.protocol == Protocol::kNotebook);
}

}  // namespace

const OptionTable<RecommendationOptions>& recommendation_option_table() {
  using Options = RecommendationOptions;
  static const OptionTable<Options> table =
      OptionTable<Options>()
          .count(
              "users", &Options::users, {1, 1e7},
              "number of users: k-means groups of raters; a group has the ratings of its members")
          .count("arms", &Options::arms, {1, static_cast<double>(kMostArms)},
                 "arms of a round, one of them liked")
          .choice<Protocol>("protocol", &Options::protocol,
                            {{"text", Protocol::kText}, {"notebook", Protocol::kNotebook}},
                            "text: above 4 stars is liked, the rest is not; notebook: above 4 is "
                            "liked, below 2 is not, the rest is dropped, features from +1 and -1")
          .choice("features", &Options::features,
                  {{"auto", ArmFeatures::kAuto},
                   {"item", ArmFeatures::kItem},
                   {"item+user", ArmFeatures::kItemAndUser}},
                  "features of an arm: the item, or the item and who rated it; auto: item+user "
                  "for protocol = notebook, else item")
          .choice<SvdSource>("svd", &Options::svd,
                             {{"all", SvdSource::kAll}, {"held-out", SvdSource::kHeldOut}},
                             "ratings that features come from: all, or one half while rounds come "
                             "from the other")
          .number("liked_above", &Options::liked_above, {-1e9, 1e9}, "ratings above this are liked")
          .number("disliked_below", &Options::disliked_below, {-1e9, 1e9},
                  "ratings below are not liked (protocol = notebook)")
          .count("most_users", &Options::most_users, {1, 1e7},
                 "how many users are kept: those with most ratings")
          .count("most_items", &Options::most_items, {1, 1e7},
                 "how many items are kept: those with most ratings")
          .count("data_seed", &Options::data_seed, {0, 1e15},
                 "seed of what is drawn to prepare the data; runs with any seed share the data");
  return table;
}

RecommendationWorld::RecommendationWorld(std::shared_ptr<const RecommendationData> data,
                                         std::shared_ptr<const UserPool> pool,
                                         const RecommendationOptions& options, std::uint64_t seed)
    : data_(std::move(data)),
      pool_(std::move(pool)),
      seed_(seed),
      with_members_(with_members(options)) {
  recommendation_option_table().validate(options);
  liked_ = find_pairs(data_->liked);
  not_liked_ = find_pairs(data_->not_liked);
  const auto arms = static_cast<std::size_t>(options.arms);
  offered_.resize(arms);
  arm_features_.resize(with_members_ ? arms * inputs() : 0);
  for (std::size_t i = 0; i < arms; ++i) {
    round_.arms.push_back({.index = ArmIndex{static_cast<std::uint32_t>(i)}});
  }
  make_start_data();
}

std::uint32_t RecommendationWorld::inputs() const {
  return static_cast<std::uint32_t>((with_members_ ? 2 : 1) * kRecommendationFeatures);
}

RecommendationWorld::Pairs RecommendationWorld::find_pairs(const ItemLists& lists) const {
  Pairs pairs{&lists, {0}};
  pairs.before.reserve(pool_->members.size() + 1);
  for (const std::uint32_t member : pool_->members) {
    check(member < data_->member_count(), "the pool was made of the data");
    pairs.before.push_back(pairs.before.back() + lists.count(member));
  }
  for (std::size_t user = 0; user < pool_->user_count(); ++user) {
    check(pair_count(pairs, user) > 0, "every user has pairs of both kinds");
  }
  return pairs;
}

std::uint64_t RecommendationWorld::pair_count(const Pairs& pairs, std::size_t user) const {
  return pairs.before[pool_->begin[user + 1]] - pairs.before[pool_->begin[user]];
}

RecommendationWorld::Pair RecommendationWorld::draw(const Pairs& pairs, std::size_t user,
                                                    Rng& rng) const {
  const auto begin = pairs.before.begin() + pool_->begin[user];
  const auto end = pairs.before.begin() + pool_->begin[user + 1];
  const std::uint64_t number = *begin + rng.below(pair_count(pairs, user));
  const auto found = std::upper_bound(begin, end, number) - 1;
  const std::uint32_t member =
      pool_->members[static_cast<std::size_t>(found - pairs.before.begin())];
  return {member, pairs.lists->of(member)[static_cast<std::size_t>(number - *found)]};
}

Features RecommendationWorld::features(Pair pair, std::span<float> buffer) const {
  const std::span<const float> item = data_->item(pair.item);
  if (!with_members_) {
    return {item, 0};
  }
  const std::span<const float> member = data_->member(pair.member);
  for (std::size_t j = 0; j < kRecommendationFeatures; ++j) {
    buffer[j] = item[j] * kHalf;
    buffer[kRecommendationFeatures + j] = member[j] * kHalf;
  }
  return {buffer, 0};
}

void RecommendationWorld::make_start_data() {
  const std::size_t width = with_members_ ? inputs() : 0;
  start_features_.resize(user_count() * width);
  for (std::size_t user = 0; user < user_count(); ++user) {
    Rng rng(seed_, Stream::kStartData, user);
    const std::uint64_t liked = pair_count(liked_, user);
    const bool is_liked = rng.below(liked + pair_count(not_liked_, user)) < liked;
    const Pair pair = draw(is_liked ? liked_ : not_liked_, user, rng);
    start_data_.push_back({UserId{static_cast<std::uint32_t>(user)},
                           {features(pair, std::span(start_features_).subspan(user * width, width)),
                            is_liked ? 1.0F : 0.0F}});
  }
}

const Round& RecommendationWorld::next_round() {
  Rng rng(seed_, Stream::kRounds, next_id_);
  round_.id = RoundId{next_id_++};
  const auto user = static_cast<std::size_t>(rng.below(user_count()));
  // The other arms are drawn alike, so a random order only has to move the liked arm.
  liked_arm_ = static_cast<std::size_t>(rng.below(offered_.size()));
  const std::size_t width = with_members_ ? inputs() : 0;
  for (std::size_t i = 0; i < offered_.size(); ++i) {
    offered_[i] = draw(i == liked_arm_ ? liked_ : not_liked_, user, rng);
    Arm& arm = round_.arms[i];
    arm.user = UserId{static_cast<std::uint32_t>(user)};
    arm.item = ItemId{offered_[i].item};
    arm.features = features(offered_[i], std::span(arm_features_).subspan(i * width, width));
  }
  return round_;
}

float RecommendationWorld::reward(ArmIndex arm) const {
  check(index(arm) < offered_.size(), "the arm is one of the round");
  return index(arm) == liked_arm_ ? 1.0F : 0.0F;
}

}  // namespace mcnb
