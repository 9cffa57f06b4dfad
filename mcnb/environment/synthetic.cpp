#include "mcnb/environment/synthetic.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/environment/group_rewards.h"

namespace mcnb {
namespace {

// Second indices of Stream::kWorld; group_rewards.cpp uses those from 10 on.
constexpr std::uint32_t kCentres = 0;
constexpr std::uint32_t kGroups = 1;
constexpr std::uint32_t kItems = 2;
constexpr std::uint32_t kProfiles = 3;
constexpr std::uint32_t kLooks = 4;

constexpr std::size_t kUserFeatures = 10;
constexpr double kLookNoise = 0.1;  // deviation of each number; profiles have unit length

// After so many candidates an item with the wanted gap counts as impossible.
constexpr std::size_t kMostCandidates = 100'000;
constexpr std::uint64_t kMostNumbers = 1'000'000'000;  // in the catalogue's features

void require(bool holds, const char* name, const std::string& expected, std::uint64_t value) {
  if (!holds) {
    refuse_option(name, expected, std::to_string(value));
  }
}

void validate(const SyntheticOptions& options) {
  synthetic_option_table().validate(options);
  require(options.clusters <= options.users, "clusters",
          fmt::format("at most as many as users ({})", options.users), options.clusters);
  require(options.users * std::max(options.features, options.topics) <= kMostNumbers, "users",
          fmt::format("at most {} with {} features and {} topics",
                      kMostNumbers / std::max(options.features, options.topics), options.features,
                      options.topics),
          options.users);
  if (options.items > 0) {
    require(options.items >= options.arms, "items",
            fmt::format("0, or at least as many as arms ({})", options.arms), options.items);
    require(options.items * options.features <= kMostNumbers, "items",
            fmt::format("at most {} with {} features", kMostNumbers / options.features,
                        options.features),
            options.items);
  }
}

// True when any two values differ by at least `gap`.
bool far_apart(std::span<const double> values, double gap, std::vector<double>& scratch) {
  scratch.assign(values.begin(), values.end());
  std::ranges::sort(scratch);
  for (std::size_t i = 0; i + 1 < scratch.size(); ++i) {
    if (scratch[i + 1] - scratch[i] < gap) {
      return false;
    }
  }
  return true;
}

// Scales to unit length again.
void append_constant(std::span<float> features) {
  const float scale = std::sqrt(0.5F);
  features.back() = 1.0F;
  for (float& feature : features) {
    feature *= scale;
  }
}

}  // namespace

const OptionTable<SyntheticOptions>& synthetic_option_table() {
  using Options = SyntheticOptions;
  static const OptionTable<Options> table =
      OptionTable<Options>()
          .count("users", &Options::users, {1, 1e7}, "users")
          .count("clusters", &Options::clusters, {1, 1000}, "groups of users that agree")
          .count("features", &Options::features, {2, 1e5}, "features of an item")
          .yes_no("constant_feature", &Options::constant_feature,
                  "one more feature, the same for all items: linear models without an intercept "
                  "can then express reward=linear")
          .count("arms", &Options::arms, {1, static_cast<double>(kMostArms)}, "arms of a round")
          .count("items", &Options::items, {0, 1e7},
                 "items of the catalogue; 0: new ones in every round")
          .count("topics", &Options::topics, {1, 1000},
                 "kinds of items; each has its own groups of users")
          .number("topic_spread", &Options::topic_spread, {0, 100, true},
                  "how far items lie from their topic's centre (with several topics)")
          .choice("reward", &Options::reward,
                  {{"linear", RewardShape::kLinear},
                   {"cosine", RewardShape::kCosine},
                   {"quadratic", RewardShape::kQuadratic},
                   {"network", RewardShape::kNetwork}},
                  "shape of the expected reward")
          .number("frequency", &Options::frequency, {0, 1000, true}, "frequency of the cosine")
          .number("gap", &Options::gap, {0, 1, false, true},
                  "least difference between two groups on every item")
          .choice("noise", &Options::noise,
                  {{"none", RewardNoise::kNone},
                   {"bernoulli", RewardNoise::kBernoulli},
                   {"gaussian", RewardNoise::kGaussian}},
                  "noise of the rewards")
          .number("noise_deviation", &Options::noise_deviation, {0, 10},
                  "standard deviation of gaussian noise");
  return table;
}

SyntheticWorld::SyntheticWorld(const SyntheticOptions& options, std::uint64_t seed)
    : options_(options), seed_(seed) {
  validate(options);
  make_topics();
  make_groups();
  rewards_ = make_group_rewards(options_, seed_,
                                [this](Rng& rng, std::size_t topic, std::span<float> features) {
                                  draw_around(rng, topic, features);
                                });
  make_user_features();
  make_items();
  make_start_data();
  resize(offered_, options_.arms);
  round_.arms.resize(options_.arms);
}

SyntheticWorld::~SyntheticWorld() = default;

void SyntheticWorld::make_topics() {
  centres_.resize(options_.topics * options_.features);
  for (std::size_t topic = 0; topic < options_.topics; ++topic) {
    Rng rng(seed_, Stream::kWorld, topic, kCentres);
    draw_unit_vector(rng,
                     std::span(centres_).subspan(topic * options_.features, options_.features));
  }
}

void SyntheticWorld::make_groups() {
  groups_.resize(options_.topics * options_.users);
  std::vector<std::uint32_t> users(options_.users);
  for (std::size_t topic = 0; topic < options_.topics; ++topic) {
    std::iota(users.begin(), users.end(), 0U);
    Rng rng(seed_, Stream::kWorld, topic, kGroups);
    rng.shuffle(std::span(users));
    for (std::size_t i = 0; i < users.size(); ++i) {
      groups_[topic * options_.users + users[i]] =
          static_cast<std::uint32_t>(i % options_.clusters);
    }
  }
}

std::size_t SyntheticWorld::user_feature_count() const { return kUserFeatures; }

void SyntheticWorld::make_user_features() {
  std::vector<float> profile(kUserFeatures);
  user_features_.assign(options_.users * kUserFeatures, 0.0F);
  for (std::size_t topic = 0; topic < options_.topics; ++topic) {
    for (std::size_t group = 0; group < options_.clusters; ++group) {
      Rng rng(seed_, Stream::kWorld, topic * options_.clusters + group, kProfiles);
      draw_unit_vector(rng, profile);
      for (std::size_t user = 0; user < options_.users; ++user) {
        for (std::size_t i = 0; group_of(topic, user) == group && i < kUserFeatures; ++i) {
          user_features_[user * kUserFeatures + i] += profile[i];
        }
      }
    }
  }
  for (std::size_t user = 0; user < options_.users; ++user) {
    Rng rng(seed_, Stream::kWorld, user, kLooks);
    double square = 0.0;
    const auto looks = std::span(user_features_).subspan(user * kUserFeatures, kUserFeatures);
    for (float& number : looks) {
      number += static_cast<float>(kLookNoise * rng.normal());
      square += static_cast<double>(number) * number;
    }
    for (float& number : looks) {
      number = static_cast<float>(number / std::sqrt(square));
    }
  }
}

void SyntheticWorld::make_items() {
  resize(catalogue_, options_.items);
  for (std::size_t item = 0; item < options_.items; ++item) {
    Rng rng(seed_, Stream::kWorld, item, kItems);
    draw_item(rng, catalogue_, item);
  }
}

void SyntheticWorld::make_start_data() {
  resize(start_items_, options_.users);
  for (std::size_t user = 0; user < options_.users; ++user) {
    Rng rng(seed_, Stream::kStartData, user);
    if (options_.items > 0) {
      copy_item(catalogue_, static_cast<std::size_t>(rng.below(options_.items)), start_items_,
                user);
    } else {
      draw_item(rng, start_items_, user);
    }
    const std::uint32_t group = group_of(start_items_.topics[user], user);
    const double expected = start_items_.values[user * options_.clusters + group];
    start_data_.push_back({UserId{static_cast<std::uint32_t>(user)},
                           {{features_of(start_items_, user), 0}, noisy(expected, rng)}});
  }
}

std::size_t SyntheticWorld::nearest_topic(std::span<const float> features) const {
  std::size_t nearest = 0;
  double largest = -2.0;
  for (std::size_t topic = 0; topic < options_.topics; ++topic) {
    const double projection =
        dot(std::span(centres_).subspan(topic * options_.features, options_.features), features);
    if (projection > largest) {
      largest = projection;
      nearest = topic;
    }
  }
  return nearest;
}

void SyntheticWorld::draw_around(Rng& rng, std::size_t topic, std::span<float> features) const {
  draw_unit_vector(rng, features);
  if (options_.topics == 1) {
    return;
  }
  for (std::size_t i = 0; i < features.size(); ++i) {
    features[i] = centres_[topic * options_.features + i] +
                  static_cast<float>(options_.topic_spread) * features[i];
  }
  make_unit_length(features);
}

void SyntheticWorld::draw_item(Rng& rng, Items& items, std::size_t row) const {
  const std::span<float> features = features_of(items, row).first(options_.features);
  const std::span<double> values =
      std::span(items.values).subspan(row * options_.clusters, options_.clusters);
  std::vector<double> scratch;
  for (std::size_t i = 0; i < kMostCandidates; ++i) {
    draw_around(rng, static_cast<std::size_t>(rng.below(options_.topics)), features);
    const std::size_t topic = nearest_topic(features);
    rewards_->find(topic, features, values);
    if (far_apart(values, options_.gap, scratch)) {
      items.topics[row] = static_cast<std::uint32_t>(topic);
      if (options_.constant_feature) {
        append_constant(features_of(items, row));
      }
      return;
    }
  }
  refuse_option("gap",
                fmt::format("a gap that {} clusters can keep (none of {} random items does; fewer "
                            "clusters or another reward help too)",
                            options_.clusters, kMostCandidates),
                number_text(options_.gap));
}

void SyntheticWorld::copy_item(const Items& from, std::size_t source, Items& to,
                               std::size_t row) const {
  std::copy_n(from.features.begin() + static_cast<std::ptrdiff_t>(source * inputs()), inputs(),
              features_of(to, row).begin());
  std::copy_n(from.values.begin() + static_cast<std::ptrdiff_t>(source * options_.clusters),
              options_.clusters,
              to.values.begin() + static_cast<std::ptrdiff_t>(row * options_.clusters));
  to.topics[row] = from.topics[source];
}

void SyntheticWorld::resize(Items& items, std::size_t count) const {
  items.features.resize(count * inputs());
  items.topics.resize(count);
  items.values.resize(count * options_.clusters);
}

std::span<float> SyntheticWorld::features_of(Items& items, std::size_t row) const {
  return std::span(items.features).subspan(row * inputs(), inputs());
}

const Round& SyntheticWorld::next_round() {
  Rng rng(seed_, Stream::kRounds, next_id_);
  round_.id = RoundId{next_id_++};
  const UserId user{static_cast<std::uint32_t>(rng.below(options_.users))};
  std::vector<std::uint64_t> items;
  if (options_.items > 0) {
    items = rng.sample_without_replacement(options_.items, options_.arms);
  }
  for (std::size_t i = 0; i < options_.arms; ++i) {
    ItemId item = kNoItem;
    if (options_.items > 0) {
      copy_item(catalogue_, static_cast<std::size_t>(items[i]), offered_, i);
      item = ItemId{static_cast<std::uint32_t>(items[i])};
    } else {
      draw_item(rng, offered_, i);
    }
    round_.arms[i] = {
        ArmIndex{static_cast<std::uint32_t>(i)}, user, item, {features_of(offered_, i), 0}};
  }
  return round_;
}

std::span<const double> SyntheticWorld::group_values(ArmIndex arm) const {
  check(index(arm) < options_.arms, "the arm is one of the round");
  return std::span(offered_.values).subspan(index(arm) * options_.clusters, options_.clusters);
}

double SyntheticWorld::expected_reward(ArmIndex arm) const {
  return group_values(arm)[group_of(topic(arm), index(round_.arms[index(arm)].user))];
}

float SyntheticWorld::reward(ArmIndex arm) const {
  return noisy(expected_reward(arm),
               Rng(seed_, Stream::kNoise, index(round_.id), static_cast<std::uint32_t>(arm)));
}

float SyntheticWorld::noisy(double expected, Rng rng) const {
  switch (options_.noise) {
    case RewardNoise::kNone:
      break;
    case RewardNoise::kBernoulli:
      return rng.chance(expected) ? 1.0F : 0.0F;
    case RewardNoise::kGaussian: {
      const double most = std::min(expected, 1.0 - expected);
      expected += std::clamp(options_.noise_deviation * rng.normal(), -most, most);
      break;
    }
  }
  return static_cast<float>(std::clamp(expected, 0.0, 1.0));
}

std::vector<UserId> SyntheticWorld::true_cluster(ArmIndex arm) const {
  const std::uint32_t group = group_of(topic(arm), index(round_.arms[index(arm)].user));
  std::vector<UserId> members;
  for (std::size_t user = 0; user < options_.users; ++user) {
    if (group_of(topic(arm), user) == group) {
      members.push_back(UserId{static_cast<std::uint32_t>(user)});
    }
  }
  return members;
}

std::vector<std::uint32_t> SyntheticWorld::true_groups(ArmIndex arm) const {
  const auto row = groups_.begin() + static_cast<std::ptrdiff_t>(topic(arm) * options_.users);
  return {row, row + static_cast<std::ptrdiff_t>(options_.users)};
}

}  // namespace mcnb
