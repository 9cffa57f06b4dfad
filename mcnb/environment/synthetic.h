#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/base/random.h"
#include "mcnb/environment/environment.h"

namespace mcnb {

/// How the expected reward h depends on the features x of an item; a is a random direction of the
/// group, a unit vector.
enum class RewardShape {
  kLinear,     ///< (1 + a.x) / 2
  kCosine,     ///< (1 + cos(frequency a.x)) / 2
  kQuadratic,  ///< min(1, d (a.x)^2 / 4)
  kNetwork,    ///< a random ReLU network, centred, scaled and squashed into (0, 1)
};

enum class RewardNoise {
  kNone,
  kBernoulli,  ///< 1 with probability h, else 0
  kGaussian,   ///< h plus a normal number, which is clipped to the same distance on both sides so
               ///< that rewards stay in [0, 1] and their mean stays h
};

struct SyntheticOptions {
  std::uint64_t users = 500;   ///< n in the paper
  std::uint64_t clusters = 2;  ///< q
  std::uint64_t features = 8;  ///< d
  bool constant_feature = false;
  std::uint64_t arms = 10;     ///< K
  std::uint64_t items = 1000;  ///< 0: new ones in every round
  std::uint64_t topics = 1;
  double topic_spread = 1.0;
  RewardShape reward = RewardShape::kNetwork;
  double frequency = 4.0;
  double gap = 0.2;  ///< gamma
  RewardNoise noise = RewardNoise::kGaussian;
  double noise_deviation = 0.1;
};
const OptionTable<SyntheticOptions>& synthetic_option_table();

class GroupRewards;

/// Users in groups that truly agree, with known reward functions.
///
/// An item has features of unit length and belongs to the topic with the nearest centre, so its
/// features determine the topic. Each topic has its own independent groups of users (who agrees
/// depends on the arm), of equal size up to one, and each group has its own reward function. On
/// every item that is offered, any two groups differ by at least `gap`. With `constant_feature` a 1
/// is appended to an item's features and all are divided by sqrt(2): then the linear shape, (1 +
/// a.x) / 2, is a scalar product with the features that policies see. A round draws a user
/// uniformly, and distinct items uniformly as the arms of that user.
class SyntheticWorld final : public Environment {
 public:
  /// Throws Error (kUsage) for options that are out of range, contradict each other, or allow no
  /// items; with items = 0 the last can also happen in next_round.
  SyntheticWorld(const SyntheticOptions& options, std::uint64_t seed);
  ~SyntheticWorld() override;

  std::size_t user_count() const override { return options_.users; }
  std::uint32_t inputs() const override {
    return static_cast<std::uint32_t>(options_.features + (options_.constant_feature ? 1 : 0));
  }
  /// The sum of random profiles of the user's groups, plus noise.
  std::span<const float> user_features() const override { return user_features_; }
  std::size_t user_feature_count() const override;
  std::span<const StartDatum> start_data() const override { return start_data_; }
  const Round& next_round() override;
  float reward(ArmIndex arm) const override;
  double expected_reward(ArmIndex arm) const override;
  bool knows_clusters() const override { return true; }
  std::vector<UserId> true_cluster(ArmIndex arm) const override;
  std::vector<std::uint32_t> true_groups(ArmIndex arm) const override;

  std::size_t topic(ArmIndex arm) const { return offered_.topics[index(arm)]; }
  /// The expected reward of the arm for every group of its topic.
  std::span<const double> group_values(ArmIndex arm) const;

 private:
  /// Items in rows: features as policies see them, topics, and values for each group.
  struct Items {
    std::vector<float> features;
    std::vector<std::uint32_t> topics;
    std::vector<double> values;
  };

  void make_topics();
  void make_groups();
  void make_items();
  void make_user_features();
  void make_start_data();
  std::size_t nearest_topic(std::span<const float> features) const;
  void draw_around(Rng& rng, std::size_t topic, std::span<float> features) const;
  void draw_item(Rng& rng, Items& items, std::size_t row) const;
  void copy_item(const Items& from, std::size_t source, Items& to, std::size_t row) const;
  void resize(Items& items, std::size_t count) const;
  std::span<float> features_of(Items& items, std::size_t row) const;
  std::uint32_t group_of(std::size_t topic, std::size_t user) const {
    return groups_[topic * options_.users + user];
  }
  float noisy(double expected, Rng rng) const;

  SyntheticOptions options_;
  std::uint64_t seed_;
  std::vector<float> centres_;         ///< of the topics, in rows
  std::vector<std::uint32_t> groups_;  ///< of the users, a row per topic
  std::unique_ptr<GroupRewards> rewards_;
  std::vector<float> user_features_;
  Items catalogue_;
  Items start_items_;
  std::vector<StartDatum> start_data_;
  Items offered_;  ///< the arms of the latest round
  Round round_;
  std::uint64_t next_id_ = 0;
};

}  // namespace mcnb
