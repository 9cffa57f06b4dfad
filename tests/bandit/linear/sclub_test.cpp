#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/group_world.h"

namespace mcnb::sclub_test {
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
  double alpha_w = 1.0;
  double alpha_p = std::sqrt(2.0);

  OptionValues values() const {
    return {{"lambda", number_text(lambda)},
            {"alpha", number_text(alpha)},
            {"alpha_w", number_text(alpha_w)},
            {"alpha_p", number_text(alpha_p)}};
  }
};

// Counts of what happened to the clusters.
struct Happened {
  int splits_by_weights = 0;
  int splits_by_shares = 0;
  int splits_of_rare_users = 0;  // among them: only a member that came more often differs
  int merges = 0;
  int chains = 0;           // rounds with more than one merge
  int by_time = 0;          // merges of clusters that the round did not touch
  std::size_t largest = 1;  // that was merged into another

  void add(const Happened& other) {
    splits_by_weights += other.splits_by_weights;
    splits_by_shares += other.splits_by_shares;
    splits_of_rare_users += other.splits_of_rare_users;
    merges += other.merges;
    chains += other.chains;
    by_time += other.by_time;
    largest = std::max(largest, other.largest);
  }
};

// SCLUB by its definition: every state is the sum over the members, every test asks all of them,
// and after every round all pairs of clusters are checked.
class PlainSclub {
 public:
  PlainSclub(const GroupWorld& world, const Settings& settings)
      : settings_(settings), inputs_(world.inputs()) {
    for (std::uint32_t user = 0; user < world.users; ++user) {
      users_.emplace_back(inputs_);
      clusters_[0].members.insert(user);
    }
    next_number_ = 1;
  }

  void add_users(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      clusters_[next_number_++].members.insert(static_cast<std::uint32_t>(users_.size()));
      users_.emplace_back(inputs_);
    }
  }

  double score(const Arm& arm) const {
    return state_of(clusters_.at(number_of(as_number(arm.user))))
        .score(arm.features, settings_.lambda, settings_.alpha, time_ + 1);
  }

  std::vector<UserId> cluster(UserId user) const {
    std::vector<UserId> members;
    for (const std::uint32_t member : clusters_.at(number_of(as_number(user))).members) {
      members.push_back(UserId{member});
    }
    return members;
  }

  void start(UserId user, const Sample& sample) {
    users_[index(user)].state.add(sample.features, sample.reward);
  }

  void learn(const Arm& arm, double reward) {
    ++time_;
    if (((time_ + 1) & time_) == 0) {  // 1, 3, 7, ...: phases of 2, 4, 8, ... rounds
      for (User& user : users_) {
        user.checked = false;
      }
      for (auto& [number, cluster] : clusters_) {
        remember(cluster);
      }
    }
    const std::uint32_t served = as_number(arm.user);
    User& user = users_[served];
    user.state.add(arm.features, reward);
    ++user.rounds;
    user.checked = true;
    std::set<std::uint64_t> touched = {number_of(served)};
    if (leaves(served)) {
      clusters_[*touched.begin()].members.erase(served);
      touched.insert(next_number_);
      clusters_[next_number_].members = {served};
      remember(clusters_[next_number_]);
      ++next_number_;
    }
    const int before = happened_.merges;
    while (const auto pair = find_pair()) {
      happened_.by_time += touched.count(pair->first) + touched.count(pair->second) == 0 ? 1 : 0;
      touched.insert(merge(pair->first, pair->second));
    }
    happened_.chains += happened_.merges > before + 1 ? 1 : 0;
  }

  const Happened& happened() const { return happened_; }

 private:
  struct User {
    explicit User(std::size_t inputs) : state(inputs) {}
    PlainState state;
    std::uint64_t rounds = 0;
    bool checked = false;
  };
  struct Cluster {
    std::set<std::uint32_t> members;
    Eigen::VectorXd old_weights;
    std::uint64_t old_samples = 0;
  };

  static std::uint32_t as_number(UserId user) { return static_cast<std::uint32_t>(user); }

  std::uint64_t number_of(std::uint32_t user) const {
    for (const auto& [number, cluster] : clusters_) {
      if (cluster.members.count(user) > 0) {
        return number;
      }
    }
    ADD_FAILURE() << "user " << user << " is in no cluster";
    return 0;
  }

  PlainState state_of(const Cluster& cluster) const {
    PlainState state(inputs_);
    for (const std::uint32_t user : cluster.members) {
      state.add(users_[user].state);
    }
    return state;
  }

  void remember(Cluster& cluster) const {
    const PlainState state = state_of(cluster);
    cluster.old_weights = state.weights(settings_.lambda);
    cluster.old_samples = state.samples;
  }

  double share(std::uint32_t user) const {
    return static_cast<double>(users_[user].rounds) / static_cast<double>(time_);
  }

  bool leaves(std::uint32_t user) {
    const Cluster& cluster = clusters_.at(number_of(user));
    if (cluster.members.size() == 1) {
      return false;
    }
    const PlainState& own = users_[user].state;
    const double distance = (own.weights(settings_.lambda) - cluster.old_weights).norm();
    const double width = plain_width(own.samples) + plain_width(cluster.old_samples);
    if (distance > settings_.alpha_w * width) {
      ++happened_.splits_by_weights;
      return true;
    }
    bool more = false;
    bool less = false;
    for (const std::uint32_t other : cluster.members) {
      if (std::abs(share(user) - share(other)) > 2.0 * settings_.alpha_p * plain_width(time_)) {
        (share(user) > share(other) ? more : less) = true;
      }
    }
    happened_.splits_by_shares += more || less ? 1 : 0;
    happened_.splits_of_rare_users += less && !more ? 1 : 0;
    return more || less;
  }

  // A cluster with all members checked, so that it may be merged.
  struct Candidate {
    std::uint64_t number;
    Eigen::VectorXd weights;
    double width;
    double mean_share;
  };

  // The first of all pairs of checked clusters that are to be merged.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> find_pair() const {
    std::vector<Candidate> checked;
    for (const auto& [number, cluster] : clusters_) {
      const auto is_checked = [&](std::uint32_t user) { return users_[user].checked; };
      if (!std::ranges::all_of(cluster.members, is_checked)) {
        continue;
      }
      double shares = 0.0;
      for (const std::uint32_t user : cluster.members) {
        shares += share(user);
      }
      const PlainState state = state_of(cluster);
      checked.push_back({number, state.weights(settings_.lambda), plain_width(state.samples),
                         shares / static_cast<double>(cluster.members.size())});
    }
    for (std::size_t i = 0; i < checked.size(); ++i) {
      for (std::size_t j = i + 1; j < checked.size(); ++j) {
        const Candidate& a = checked[i];
        const Candidate& b = checked[j];
        if ((a.weights - b.weights).norm() < settings_.alpha_w / 2.0 * (a.width + b.width) &&
            std::abs(a.mean_share - b.mean_share) < settings_.alpha_p * plain_width(time_)) {
          return std::pair(a.number, b.number);
        }
      }
    }
    return std::nullopt;
  }

  std::uint64_t merge(std::uint64_t a, std::uint64_t b) {
    const std::size_t size_a = clusters_[a].members.size();
    const std::size_t size_b = clusters_[b].members.size();
    const bool into_a = size_a > size_b || (size_a == size_b && a < b);
    const std::uint64_t host = into_a ? a : b;
    const std::uint64_t guest = into_a ? b : a;
    ++happened_.merges;
    happened_.largest = std::max(happened_.largest, clusters_[guest].members.size());
    clusters_[host].members.merge(clusters_[guest].members);
    clusters_.erase(guest);
    remember(clusters_[host]);
    return host;
  }

  Settings settings_;
  std::size_t inputs_;
  std::vector<User> users_;
  std::map<std::uint64_t, Cluster> clusters_;
  std::uint64_t next_number_ = 0;
  std::uint64_t time_ = 0;
  Happened happened_;
};

struct Play {
  std::uint64_t rounds = 1200;
  bool late = false;
  bool start = true;
  std::uint64_t newcomers_at = 0;  // 3 more users; 0: never
};

Happened expect_matches_in_one(GroupWorld world, const Settings& settings, const Play& play) {
  ThreadPool threads(2);
  const auto policy = find_policy("sclub").build(settings.values(), world.setup(threads));
  PlainSclub twin(world, settings);
  if (play.start) {
    for (std::uint32_t user = 0; user < world.users; ++user) {
      const OwnRound own = world.round(1'000'000 + user);
      policy->start(UserId{user}, {own.round.arms[0].features, own.rewards[0]});
      twin.start(UserId{user}, {own.round.arms[0].features, own.rewards[0]});
    }
  }
  cases::Feedback feedback(play.late);
  for (std::uint64_t id = 0; id < play.rounds; ++id) {
    if (play.newcomers_at > 0 && id == play.newcomers_at) {
      policy->add_users(3);
      twin.add_users(3);
      world.users += 3;
    }
    OwnRound own = world.round(id);
    const std::vector<Score> scores = policy->scores(own.round);
    std::vector<Score> expected(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      expected[i].value = twin.score(own.round.arms[i]);
      EXPECT_NEAR(scores[i].value, expected[i].value, kTolerance) << "round " << id << ", " << i;
      EXPECT_EQ(scores[i].cluster_size, twin.cluster(own.round.arms[i].user).size());
    }
    for (std::uint32_t user = 0; user < world.users; ++user) {
      Arm arm = own.round.arms[0];
      arm.user = UserId{user};
      EXPECT_EQ(policy->cluster(arm), twin.cluster(UserId{user})) << "round " << id << ", " << user;
    }
    const ArmIndex choice = policy->choose(own.round);
    EXPECT_EQ(choice, highest(expected)) << "round " << id;
    feedback.give(std::move(own), choice, [&](RoundId round, const Arm& arm, float reward) {
      policy->learn(round, arm, reward);
      twin.learn(arm, reward);
    });
    if (testing::Test::HasFailure()) {
      break;
    }
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

TEST(Sclub, DoesWhatItsTwinDoesOnDenseFeatures) {
  const Happened happened =
      expect_matches_twin({.users = 20, .noise = 0.3, .regroup_every = 300}, {.alpha_w = 0.5}, {});
  EXPECT_GT(happened.splits_by_weights, 20);
  EXPECT_GT(happened.merges, 20);
  EXPECT_GT(happened.largest, 2U);
}

TEST(Sclub, DoesWhatItsTwinDoesWithItsStandardOptions) {
  const Happened happened = expect_matches_twin({.users = 20}, {}, {});
  EXPECT_GT(happened.splits_by_weights, 20);
  EXPECT_GT(happened.merges, 20);
}

TEST(Sclub, DoesWhatItsTwinDoesWhereFeedbackIsLate) {
  const Happened happened =
      expect_matches_twin({.users = 20, .groups = 4, .noise = 0.3, .regroup_every = 300},
                          {.lambda = 0.1, .alpha_w = 0.5}, {.late = true});
  EXPECT_GT(happened.splits_by_weights, 20);
  EXPECT_GT(happened.merges, 20);
}

TEST(Sclub, DoesWhatItsTwinDoesOnBlocksWithUsersOfTheirOwn) {
  const Happened happened =
      expect_matches_twin({.features = 2, .arms = 3, .blocks = true, .regroup_every = 300},
                          {.alpha_w = 0.6}, {.late = true});
  EXPECT_GT(happened.splits_by_weights, 20);
  EXPECT_GT(happened.merges, 20);
}

TEST(Sclub, DoesWhatItsTwinDoesWhereUsersComeUnequallyOften) {
  const Settings settings{.alpha_w = 1.5, .alpha_p = 0.05};
  Happened happened =
      expect_matches_twin({.users = 40, .groups = 1, .skew = 1.5}, settings, {.rounds = 2000});
  happened.add(expect_matches_twin({.users = 20, .groups = 1, .skew = 1.5}, settings,
                                   {.rounds = 2000, .late = true}));
  EXPECT_GT(happened.splits_by_shares, 100);
  EXPECT_GT(happened.splits_of_rare_users, 2);
  EXPECT_GT(happened.merges, 100);
  EXPECT_GT(happened.chains, 2);
  EXPECT_GT(happened.by_time, 2);
  EXPECT_GT(happened.largest, 2U);
}

TEST(Sclub, DoesWhatItsTwinDoesWithoutStartDataAndWithNewUsers) {
  const Happened happened =
      expect_matches_twin({.regroup_every = 400}, {.lambda = 0.5, .alpha_w = 0.6},
                          {.start = false, .newcomers_at = 200});
  EXPECT_GT(happened.splits_by_weights, 20);
  EXPECT_GT(happened.merges, 20);
  EXPECT_GT(happened.chains, 0);
}

TEST(Sclub, SplitsAndMergesAsBeforeAfterEveryLoad) {
  ThreadPool threads(1);
  for (const bool blocks : {false, true}) {
    const GroupWorld world{.features = 3, .blocks = blocks, .skew = 1.5, .regroup_every = 300};
    cases::expect_loads_change_nothing(world, 1500, [&] {
      return find_policy("sclub").build(Settings{.alpha_w = 0.5, .alpha_p = 0.1}.values(),
                                        world.setup(threads));
    });
  }
}

// One arm with the features, for the user.
Arm arm_of(UserId user, std::span<const float> values) {
  return {.user = user, .features = {values}};
}

TEST(Sclub, UsersAreScoredByTheirClustersAndNewOnesAreAlone) {
  ThreadPool threads(1);
  const auto policy = find_policy("sclub").build(
      {{"alpha", "1"}}, {.inputs = 2, .users = 3, .seed = 1, .threads = &threads});
  policy->add_users(1);
  const std::vector<float> x = {1.0F, 0.0F};
  policy->learn(RoundId{0}, arm_of(UserId{0}, x), 1.0F);
  const Round together{RoundId{1}, {arm_of(UserId{1}, x)}};
  const Round alone{RoundId{1}, {arm_of(UserId{3}, x)}};
  const Score of_cluster = policy->scores(together)[0];
  EXPECT_DOUBLE_EQ(of_cluster.estimate, 0.5);  // 1 / (lambda + 1)
  EXPECT_DOUBLE_EQ(of_cluster.part("uncertainty"), std::sqrt(std::log(3.0) / 2.0));  // t = 2
  EXPECT_EQ(of_cluster.cluster_size, 3U);
  const Score of_user = policy->scores(alone)[0];
  EXPECT_EQ(of_user.estimate, 0.0);
  EXPECT_DOUBLE_EQ(of_user.part("uncertainty"), std::sqrt(std::log(3.0)));
  EXPECT_EQ(of_user.cluster_size, 1U);
  EXPECT_EQ(policy->cluster(alone.arms[0]), std::vector{UserId{3}});
}

TEST(Sclub, RefusesToTellTheClusterOfWhatIsNoArm) {
  ThreadPool threads(1);
  const auto policy =
      find_policy("sclub").build({}, {.inputs = 2, .users = 3, .seed = 1, .threads = &threads});
  const std::vector<float> x = {1.0F, 0.0F, 0.0F};
  expect_error(ErrorKind::kInput, "user 3 is unknown",
               [&] { policy->cluster(arm_of(UserId{3}, std::span(x).first(2))); });
  expect_error(ErrorKind::kInput, "do not fit", [&] { policy->cluster(arm_of(UserId{0}, x)); });
}

// A state of two users that have a sample each, written number by number.
struct SavedSclub {
  std::uint64_t rewards = 2;
  std::uint64_t next_number = 2;
  std::vector<std::uint64_t> rounds = {1, 1};
  std::vector<std::uint32_t> checked_in = {1, 1};
  std::vector<std::uint64_t> numbers = {0, 1};
  std::uint32_t phase = 1;
  std::vector<std::vector<UserId>> members = {{UserId{0}}, {UserId{1}}};
  std::vector<std::uint32_t> old_blocks;
  std::vector<double> old_values;

  void load_into(Policy& policy) const {
    LinearUsers users(2, 2, 1.0);
    const std::vector<float> x = {1.0F, 0.0F};
    users.add(UserId{0}, {x}, 1.0);
    users.add(UserId{1}, {x}, 1.0);
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    users.save(writer);
    writer.write(rewards);
    writer.write(next_number);
    for (std::size_t i = 0; i < 2; ++i) {
      writer.write(rounds[i]);
      writer.write(checked_in[i]);
    }
    writer.write(static_cast<std::uint64_t>(numbers.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      writer.write(numbers[i]);
      writer.write(phase);
      writer.write_all(members[i]);
      writer.write(std::uint64_t{0});
      writer.write_all(old_blocks);
      writer.write_all(old_values);
    }
    writer.finish();
    cases::load(policy, out.str());
  }
};

TEST(Sclub, RefusesStatesThatNoneCouldHaveSaved) {
  ThreadPool threads(1);
  const auto make = [&] {
    return find_policy("sclub").build({},
                                      {.inputs = 2, .users = 2, .seed = 1, .threads = &threads});
  };
  SavedSclub{}.load_into(*make());
  const auto refused = [&](const std::string& words, const SavedSclub& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { saved.load_into(*make()); });
  };
  refused("more rounds than samples", {.rounds = {2, 0}});
  refused("more rounds than samples", {.rewards = 1});
  refused("more rounds than samples", {.checked_in = {1, 2}});
  refused("more rounds than samples", {.checked_in = {1, 0}});
  refused("do not add up", {.rewards = 3});
  refused("in their order", {.numbers = {1, 0}});
  refused("in their order", {.numbers = {0, 0}});
  refused("in their order", {.numbers = {0, 2}});
  refused("cannot have", {.members = {{UserId{0}}, {UserId{0}}}});
  refused("cannot have", {.members = {{UserId{0}}, {UserId{2}}}});
  refused("a cluster is empty", {.members = {{UserId{0}}, {}}});
  refused("of a phase yet to come", {.phase = 2});
  refused("state", {.members = {{UserId{0}, UserId{1}}, {}}});  // which has a state of its own
  refused("in no cluster", {.numbers = {0}});
  refused("old weights", {.old_blocks = {1}, .old_values = {0.0, 0.0}});
  refused("old weights", {.old_blocks = {0}, .old_values = {0.0}});
  refused("old weights", {.old_blocks = {0}, .old_values = {0.0, std::nan("")}});
}

TEST(Sclub, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value) {
    expect_error(ErrorKind::kUsage, "option " + name, [&] {
      find_policy("sclub").resolve({{name, value}});
    });
  };
  refused("lambda", "0");
  refused("alpha", "-1");
  refused("alpha_w", "-1");
  refused("alpha_p", "nan");
  EXPECT_EQ(parse_number("alpha_p", {0.0, 10.0}, find_policy("sclub").resolve({}).at("alpha_p")),
            std::sqrt(2.0));
}

}  // namespace
}  // namespace mcnb::sclub_test
