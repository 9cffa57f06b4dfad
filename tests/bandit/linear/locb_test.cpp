#include <gtest/gtest.h>

#include <set>

#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/group_world.h"

namespace mcnb::locb_test {
namespace {

using cases::GroupWorld;
using cases::OwnRound;
using cases::plain_width;
using cases::PlainState;
using plain::expect_error;

constexpr double kTolerance = 1e-8;  // of scores of size one, both in double precision

struct Settings {
  double lambda = 1.0;
  double alpha = 0.5;
  std::uint64_t seeds = 5;
  double gamma = 0.2;

  OptionValues values() const {
    return {{"lambda", number_text(lambda)},
            {"alpha", number_text(alpha)},
            {"seeds", std::to_string(seeds)},
            {"gamma", number_text(gamma)}};
  }
};

// Counts of what happened to the clusters.
struct Happened {
  int entries = 0;
  int departures = 0;
  int freezes = 0;
  int overlaps = 0;          // rounds in which two clusters share some users, and neither all
  int lonely = 0;            // arms whose user was in no cluster
  int frozen_strangers = 0;  // rounds in which a frozen cluster has another set than its rule

  void add(const Happened& other) {
    entries += other.entries;
    departures += other.departures;
    freezes += other.freezes;
    overlaps += other.overlaps;
    lonely += other.lonely;
    frozen_strangers += other.frozen_strangers;
  }
};

// LOCB by its definition: after every sample all clusters that are not frozen are found again, and
// every state is the sum over the members.
class PlainLocb {
 public:
  PlainLocb(const GroupWorld& world, const Settings& settings)
      : settings_(settings), inputs_(world.inputs()) {
    add_users(world.users);
  }

  void add_users(std::size_t count) {
    const std::size_t before = users_.size();
    users_.resize(before + count, PlainState(inputs_));
    const std::size_t wanted = std::min<std::size_t>(count, settings_.seeds - clusters_.size());
    for (const std::uint64_t offset :
         Rng(7, Stream::kLocbSeeds, before).sample_without_replacement(count, wanted)) {
      clusters_.push_back({.seed = before + static_cast<std::size_t>(offset)});
    }
    find_clusters();
  }

  void learn(UserId user, const Features& features, double reward) {
    users_[index(user)].add(features, reward);
    find_clusters();
    for (Cluster& cluster : clusters_) {
      if (!cluster.frozen && cluster.seed == index(user) &&
          plain_width(users_[index(user)].samples) <= settings_.gamma / 4.0) {
        cluster.frozen = true;
        ++happened_.freezes;
      }
    }
  }
  void next_round() {
    ++time_;
    for (const Cluster& a : clusters_) {
      happened_.frozen_strangers += a.frozen && members_around(a.seed) != a.members ? 1 : 0;
    }
    for (const Cluster& a : clusters_) {
      for (const Cluster& b : clusters_) {
        std::set<std::size_t> both;
        std::ranges::set_intersection(a.members, b.members, std::inserter(both, both.end()));
        if (!both.empty() && both != a.members && both != b.members) {
          ++happened_.overlaps;
          return;
        }
      }
    }
  }

  // The highest score of an arm, and every set of users that it may have come from (some differ
  // only in users without samples, or by rounding).
  struct HighestScore {
    double score = 0.0;
    std::set<std::vector<UserId>> clusters;
  };
  HighestScore highest_score(const Arm& arm) {
    std::vector<std::pair<double, std::vector<UserId>>> all;
    for (const Cluster& cluster : clusters_) {
      if (cluster.members.count(index(arm.user)) > 0) {
        PlainState state(inputs_);
        std::vector<UserId> members;
        for (const std::size_t user : cluster.members) {
          state.add(users_[user]);
          members.push_back(UserId{static_cast<std::uint32_t>(user)});
        }
        all.emplace_back(score(state, arm), members);
      }
    }
    if (all.empty()) {
      ++happened_.lonely;
      return {score(users_[index(arm.user)], arm), {{arm.user}}};
    }
    HighestScore best{.score = all[0].first};
    for (const auto& [value, members] : all) {
      best.score = std::max(best.score, value);
    }
    for (const auto& [value, members] : all) {
      if (value > best.score - kTolerance) {
        best.clusters.insert(members);
      }
    }
    return best;
  }

  const Happened& happened() const { return happened_; }

 private:
  struct Cluster {
    std::size_t seed;
    bool frozen = false;
    std::set<std::size_t> members;
  };

  double score(const PlainState& state, const Arm& arm) const {
    return state.score(arm.features, settings_.lambda, settings_.alpha, time_ + 1);
  }

  std::set<std::size_t> members_around(std::size_t seed) const {
    std::set<std::size_t> members;
    for (std::size_t user = 0; user < users_.size(); ++user) {
      const double distance = (weights_[user] - weights_[seed]).norm();
      if (distance <= plain_width(users_[user].samples) + plain_width(users_[seed].samples)) {
        members.insert(user);
      }
    }
    return members;
  }

  void find_clusters() {
    weights_.clear();
    for (const PlainState& user : users_) {
      weights_.push_back(user.weights(settings_.lambda));
    }
    for (Cluster& cluster : clusters_) {
      if (!cluster.frozen) {
        const std::set<std::size_t> before = std::move(cluster.members);
        cluster.members = members_around(cluster.seed);
        for (std::size_t user = 0; user < users_.size(); ++user) {
          happened_.entries += cluster.members.count(user) > before.count(user) ? 1 : 0;
          happened_.departures += cluster.members.count(user) < before.count(user) ? 1 : 0;
        }
      }
    }
  }

  Settings settings_;
  std::size_t inputs_;
  std::vector<PlainState> users_;
  std::vector<Eigen::VectorXd> weights_;  // of the users
  std::vector<Cluster> clusters_;
  std::uint64_t time_ = 0;
  Happened happened_;
};

struct Play {
  std::uint64_t rounds = 600;
  bool late = false;
  bool start = true;
  std::uint64_t newcomers_at = 0;  // 3 more users; 0: never
};

Happened expect_matches_in_one(GroupWorld world, const Settings& settings, const Play& play) {
  ThreadPool threads(2);
  const auto policy = find_policy("locb").build(settings.values(), world.setup(threads));
  PlainLocb twin(world, settings);
  if (play.start) {
    for (std::uint32_t user = 0; user < world.users; ++user) {
      const OwnRound own = world.round(1'000'000 + user);
      policy->start(UserId{user}, {own.round.arms[0].features, own.rewards[0]});
      twin.learn(UserId{user}, own.round.arms[0].features, own.rewards[0]);
    }
  }
  cases::Feedback feedback(play.late);
  for (std::uint64_t id = 0; id < play.rounds && !testing::Test::HasFailure(); ++id) {
    if (play.newcomers_at > 0 && id == play.newcomers_at) {
      policy->add_users(3);
      twin.add_users(3);
      world.users += 3;
    }
    OwnRound own = world.round(id);
    const std::vector<Score> scores = policy->scores(own.round);
    std::vector<Score> expected(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const PlainLocb::HighestScore best = twin.highest_score(own.round.arms[i]);
      expected[i].value = best.score;
      EXPECT_NEAR(scores[i].value, best.score, kTolerance) << "round " << id << ", " << i;
      const std::vector<UserId> cluster = *policy->cluster(own.round.arms[i]);
      EXPECT_EQ(best.clusters.count(cluster), 1U) << "round " << id << ", " << i;
      EXPECT_EQ(scores[i].cluster_size, cluster.size());
    }
    const ArmIndex choice = policy->choose(own.round);
    EXPECT_EQ(choice, highest(expected)) << "round " << id;
    feedback.give(std::move(own), choice, [&](RoundId round, const Arm& arm, float reward) {
      policy->learn(round, arm, reward);
      twin.learn(arm.user, arm.features, reward);
      twin.next_round();
    });
  }
  return twin.happened();
}

// Compares the policy with its twin in several worlds of this kind.
Happened expect_matches_twin(GroupWorld world, const Settings& settings, const Play& play) {
  Happened all;
  for (world.seed = 1; world.seed <= 3 && !testing::Test::HasFailure(); ++world.seed) {
    SCOPED_TRACE(testing::Message() << "world " << world.seed);
    all.add(expect_matches_in_one(world, settings, play));
  }
  return all;
}

TEST(Locb, DoesWhatItsTwinDoesOnDenseFeatures) {
  const Happened happened = expect_matches_twin({.groups = 4, .noise = 0.3}, {}, {});
  EXPECT_GT(happened.entries, 100);
  EXPECT_GT(happened.departures, 100);
  EXPECT_GT(happened.overlaps, 100);
}

TEST(Locb, DoesWhatItsTwinDoesWhereClustersFreezeAndFeedbackIsLate) {
  const Happened happened = expect_matches_twin({.users = 8, .noise = 0.3, .regroup_every = 200},
                                                {.lambda = 0.1, .gamma = 1.5}, {.late = true});
  EXPECT_GT(happened.freezes, 5);
  EXPECT_GT(happened.frozen_strangers, 100);
  EXPECT_GT(happened.overlaps, 100);
}

TEST(Locb, DoesWhatItsTwinDoesOnBlocksWithUsersOfTheirOwn) {
  const Happened happened =
      expect_matches_twin({.features = 2, .arms = 3, .blocks = true, .noise = 0.3},
                          {.seeds = 4, .gamma = 1.3}, {.late = true});
  EXPECT_GT(happened.entries, 100);
  EXPECT_GT(happened.departures, 100);
  EXPECT_GT(happened.overlaps, 100);
  EXPECT_GT(happened.freezes, 2);
  EXPECT_GT(happened.lonely, 10);
}

TEST(Locb, DoesWhatItsTwinDoesWithoutStartDataAndWithNewUsers) {
  // With weights of this size, users without samples do not fit into every cluster.
  for (const double size : {1.0, 3.0}) {
    const Happened happened =
        expect_matches_twin({.groups = 4, .skew = 3.0, .size = size}, {.seeds = 14, .gamma = 1.5},
                            {.start = false, .newcomers_at = 200});
    EXPECT_GT(happened.departures, 100);
    EXPECT_GT(happened.freezes, 5);
  }
}

TEST(Locb, DoesWhatItsTwinDoesWhereFewUsersAreSeeds) {
  const Happened happened =
      expect_matches_twin({.users = 20, .groups = 5, .noise = 0.0}, {.alpha = 1.0, .seeds = 2}, {});
  EXPECT_GT(happened.lonely, 100);
}

TEST(Locb, GoesOnAsBeforeAfterEveryLoad) {
  ThreadPool threads(1);
  for (const bool blocks : {false, true}) {
    const GroupWorld world{.features = 3, .blocks = blocks, .noise = 0.3, .regroup_every = 300};
    cases::expect_loads_change_nothing(world, 1000, [&] {
      return find_policy("locb").build(Settings{.gamma = 1.3}.values(), world.setup(threads));
    });
  }
}

TEST(Locb, EveryUserIsASeedWhereNoMoreAreWanted) {
  const GroupWorld world{.users = 30, .groups = 30, .noise = 0.0};
  ThreadPool threads(1);
  const auto policy =
      find_policy("locb").build({{"seeds", "1000"}, {"lambda", "0.01"}}, world.setup(threads));
  for (std::uint64_t id = 0; id < 3000; ++id) {
    const OwnRound own = world.round(id);
    const ArmIndex choice = policy->choose(own.round);
    policy->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
  }
  std::size_t smallest = 30;
  for (std::uint32_t user = 0; user < 30; ++user) {
    OwnRound own = world.round(5000);
    own.round.arms.resize(1);
    own.round.arms[0].user = UserId{user};
    const Score score = policy->scores(own.round)[0];
    EXPECT_GT(score.part("uncertainty"), 0.0) << user;
    smallest = std::min(smallest, score.cluster_size);
  }
  EXPECT_LT(smallest, 10U);
}

TEST(Locb, AUserInNoClusterIsScoredByItsOwnState) {
  ThreadPool threads(1);
  // One seed, known well and at once frozen.
  const auto policy =
      find_policy("locb").build({{"lambda", "1"}, {"alpha", "1"}, {"seeds", "1"}, {"gamma", "4"}},
                                {.inputs = 2, .users = 1, .threads = &threads});
  const std::vector<float> x = {1.0F, 0.0F};
  const auto round = [&](std::uint32_t user) {
    return Round{RoundId{9}, {{.user = UserId{user}, .features = {x}}}};
  };
  policy->learn(RoundId{0}, round(0).arms[0], 1.0F);
  policy->add_users(1);  // too late to be in it
  const Score of_cluster = policy->scores(round(0))[0];
  EXPECT_DOUBLE_EQ(of_cluster.estimate, 0.5);  // 1 / (lambda + 1)
  EXPECT_DOUBLE_EQ(of_cluster.part("uncertainty"), std::sqrt(std::log(3.0) / 2.0));  // t = 2
  const Score of_user = policy->scores(round(1))[0];
  EXPECT_EQ(of_user.estimate, 0.0);
  EXPECT_DOUBLE_EQ(of_user.part("uncertainty"), std::sqrt(std::log(3.0)));  // t = 2
  EXPECT_EQ(of_user.cluster_size, 1U);
  EXPECT_EQ(policy->cluster(round(1).arms[0]), std::vector{UserId{1}});
  policy->learn(RoundId{1}, round(1).arms[0], 1.0F);
  EXPECT_DOUBLE_EQ(policy->scores(round(1))[0].estimate, 0.5);
  EXPECT_DOUBLE_EQ(policy->scores(round(0))[0].estimate, 0.5);
}

TEST(Locb, RefusesToTellTheClusterOfWhatIsNoArm) {
  ThreadPool threads(1);
  const auto policy =
      find_policy("locb").build({}, {.inputs = 2, .users = 3, .seed = 1, .threads = &threads});
  const std::vector<float> x = {1.0F, 0.0F, 0.0F};
  expect_error(ErrorKind::kInput, "user 3 is unknown",
               [&] { policy->cluster({.user = UserId{3}, .features = {std::span(x).first(2)}}); });
  expect_error(ErrorKind::kInput, "do not fit", [&] { policy->cluster({.features = {x}}); });
}

// A state of two users, written number by number. One of the users has a sample.
struct SavedLocb {
  std::uint64_t count = 2;
  std::vector<UserId> seeds = {UserId{1}, UserId{0}};
  std::uint8_t frozen = 1;
  std::uint8_t holds_unknown = 1;
  std::uint64_t users_then = 2;
  std::uint64_t size_then = 2;
  std::vector<std::uint8_t> members = {1};

  void load_into(Policy& policy) const {
    LinearUsers users(2, 2, 1.0);
    const std::vector<float> x = {1.0F, 0.0F};
    users.add(UserId{0}, {x}, 1.0);
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    users.save(writer);
    writer.write(std::uint64_t{0});
    writer.write(count);
    for (const UserId seed : seeds) {
      writer.write(seed);
      writer.write(frozen);
      writer.write(holds_unknown);
      writer.write(users_then);
      writer.write(size_then);
      writer.write_all(members);
    }
    writer.finish();
    cases::load(policy, out.str());
  }
};

TEST(Locb, RefusesStatesThatNoneCouldHaveSaved) {
  ThreadPool threads(1);
  const auto make = [&] {
    return find_policy("locb").build({{"lambda", "1"}},
                                     {.inputs = 2, .users = 2, .seed = 1, .threads = &threads});
  };
  SavedLocb{}.load_into(*make());
  const auto refused = [&](const std::string& words, const SavedLocb& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { saved.load_into(*make()); });
  };
  refused("number of seeds", {.count = 1});
  refused("number of seeds", {.count = 3});
  refused("a seed is a user that does not exist", {.seeds = {UserId{0}, UserId{2}}});
  refused("a seed twice", {.seeds = {UserId{0}, UserId{0}}});
  refused("does not fit the users", {.frozen = 2});
  refused("does not fit the users", {.holds_unknown = 2});
  refused("does not fit the users", {.users_then = 3});
  refused("does not fit the users", {.size_then = 3});
  refused("does not fit the users", {.members = {2}});
  refused("does not fit the users", {.members = {}});
}

TEST(Locb, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value) {
    expect_error(ErrorKind::kUsage, "option " + name, [&] {
      find_policy("locb").resolve({{name, value}});
    });
  };
  refused("lambda", "0");
  refused("alpha", "-1");
  refused("seeds", "0");
  refused("gamma", "-0.1");
  EXPECT_EQ(find_policy("locb").resolve({}).at("seeds"), "20");
  EXPECT_EQ(find_policy("locb").resolve({}).at("gamma"), number_text(0.2));
}

}  // namespace
}  // namespace mcnb::locb_test
