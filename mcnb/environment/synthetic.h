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

// How the expected reward h depends on the features x of an item; a is a random direction of the
// group, a unit vector.
enum class RewardShape {
  kLinear,     // (1 + a.x) / 2
  kCosine,     // (1 + cos(frequency a.x)) / 2
  kQuadratic,  // min(1, d (a.x)^2 / 4)
  kNetwork,    // a random ReLU network, centred, scaled and squashed into (0, 1)
};

enum class RewardNoise {
  kNone,
  kBernoulli,  // 1 with probability h, else 0
  kGaussian,   // h plus a normal number, which is clipped to the same distance on both sides so
               // that rewards stay in [0, 1] and their mean stays h
};

struct SyntheticOptions {
  std::uint64_t users = 500;   // n in the paper
  std::uint64_t clusters = 2;  // q
  std::uint64_t features = 8;  // d
  bool constant_feature = false;
  std::uint64_t arms = 10;     // K
  std::uint64_t items = 1000;  // 0: fresh ones in every round
  std::uint64_t topics = 1;
  double topic_spread = 1.0;
  RewardShape reward = RewardShape::kNetwork;
  double frequency = 4.0;
  double gap = 0.2;  // gamma
  RewardNoise noise = RewardNoise::kGaussian;
  double noise_deviation = 0.1;
};
const OptionTable<SyntheticOptions>& synthetic_option_table();

// The true expected rewards of every group, on every topic.
class GroupRewards {
 public:
  virtual ~GroupRewards() = default;
  // values[g] = what group g expects of an item of this topic, in [0, 1].
  virtual void find(std::size_t topic, std::span<const float> features,
                    std::span<double> values) const = 0;
};

// Users in groups that truly agree, with known reward functions.
//
// An item has features of unit length and belongs to one topic: that of the nearest of the topics'
// centres, so the features say which. On every topic the users are grouped afresh and independently
// (who agrees depends on the arm), into groups of equal size (give or take one), each with a reward
// function of its own. On every item that is ever offered any two groups differ by at least `gap`.
// With `constant_feature` a 1 is put behind an item's features and all are divided by sqrt(2): then
// the linear shape, (1 + a.x) / 2, is a scalar product with what policies see.
// A round: a user, uniformly; arms distinct items, uniformly, all for that user.
class SyntheticWorld final : public Environment {
 public:
  // Throws Error (kUsage) for options out of range, that contradict each other, or for which no
  // items can be found; the last also in next_round where every round has fresh items.
  SyntheticWorld(const SyntheticOptions& options, std::uint64_t seed);

  std::size_t user_count() const override { return options_.users; }
  std::uint32_t inputs() const override {
    return static_cast<std::uint32_t>(options_.features + (options_.constant_feature ? 1 : 0));
  }
  // A user looks like its groups, roughly: a random profile of each, summed, and noise.
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
  // What the arm is worth to every group of its topic.
  std::span<const double> group_values(ArmIndex arm) const;

 private:
  // Items in rows: their features as policies see them, topics, and values for each group.
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
  std::vector<float> centres_;         // of the topics, in rows
  std::vector<std::uint32_t> groups_;  // of the users, a row per topic
  std::unique_ptr<GroupRewards> rewards_;
  std::vector<float> user_features_;
  Items catalogue_;
  Items start_items_;
  std::vector<StartDatum> start_data_;
  Items offered_;  // the arms of the round made last
  Round round_;
  std::uint64_t next_id_ = 0;
};

}  // namespace mcnb
