#include "mcnb/bandit/linear/linear_clusters.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <set>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/comparison.h"
#include "tests/bandit/plain_user_graph.h"
#include "tests/bandit/policy_cases.h"

namespace mcnb::club_test {
namespace {

using cases::Arrival;
using cases::OwnRound;
using cases::PlainUserGraph;
using cases::World;
using plain::expect_error;

struct Options {
  double lambda = 1.0;
  double alpha = 0.3;
  double alpha_2 = 1.0;
  bool random = false;

  OptionValues values() const {
    return {{"lambda", number_text(lambda)},
            {"alpha", number_text(alpha)},
            {"alpha_2", number_text(alpha_2)},
            {"graph", random ? "random" : "complete"}};
  }
};

// CLUB as in the paper: full matrices, with all sums, inverses and components computed again each
// time.
class PlainClub {
 public:
  PlainClub(const World& world, const Options& options, std::uint64_t seed)
      : shape_{.inputs = world.inputs()},
        options_(options),
        graph_(options.random ? PlainUserGraph::Kind::kRandom : PlainUserGraph::Kind::kComplete,
               world.users, seed),
        users_(world.users, User(world.inputs(), options.lambda)) {}

  void add_users(std::size_t count) {
    graph_.add_newcomers(count, known_);
    users_.resize(users_.size() + count, User(shape_.inputs, options_.lambda));
  }

  double score(const Arm& arm) const {
    const Eigen::Index d = shape_.inputs;
    Eigen::MatrixXd m = options_.lambda * Eigen::MatrixXd::Identity(d, d);
    Eigen::VectorXd b = Eigen::VectorXd::Zero(d);
    for (const std::size_t member : cluster(arm)) {
      m += users_[member].m - options_.lambda * Eigen::MatrixXd::Identity(d, d);
      b += users_[member].b;
    }
    const Eigen::MatrixXd inverse = m.inverse();
    const Eigen::VectorXd x = whole(arm.features);
    return x.dot(inverse * b) +
           options_.alpha *
               std::sqrt(x.dot(inverse * x) * std::log(1.0 + static_cast<double>(time_)));
  }

  void add(UserId user, const Features& features, double reward) {
    const Eigen::VectorXd x = whole(features);
    User& own = users_[index(user)];
    if (own.samples == 0.0) {
      known_.push_back(index(user));
    }
    own.m += x * x.transpose();
    own.b += reward * x;
    own.samples += 1.0;
    own.w = own.m.inverse() * own.b;
  }

  void learn(const Arm& arm, double reward) {
    add(arm.user, arm.features, reward);
    ++time_;
    const std::size_t u = index(arm.user);
    for (std::size_t j = 0; j < users_.size(); ++j) {
      const double allowed =
          options_.alpha_2 * (width(users_[u].samples) + width(users_[j].samples));
      if (graph_.linked(u, j) && (users_[u].w - users_[j].w).norm() > allowed) {
        graph_.cut(u, j);
      }
    }
  }

  std::set<std::size_t> cluster(const Arm& arm) const { return graph_.component(index(arm.user)); }
  std::size_t component_count() const { return graph_.component_count(); }

 private:
  struct User {
    User(std::uint32_t inputs, double lambda)
        : m(lambda * Eigen::MatrixXd::Identity(inputs, inputs)),
          b(Eigen::VectorXd::Zero(inputs)),
          w(Eigen::VectorXd::Zero(inputs)) {}

    Eigen::MatrixXd m;
    Eigen::VectorXd b;
    Eigen::VectorXd w;
    double samples = 0.0;
  };

  static double width(double samples) {
    return std::sqrt((1.0 + std::log(1.0 + samples)) / (1.0 + samples));
  }
  Eigen::VectorXd whole(const Features& features) const {
    const std::vector<double> x = plain::dense(shape_, features);
    return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  }

  NetworkShape shape_;
  Options options_;
  std::vector<std::size_t> known_;  // in the order of their first samples
  PlainUserGraph graph_;
  std::vector<User> users_;
  std::uint64_t time_ = 1;
};

// Users of three groups; all users of a group have the same taste.
OwnRound in_groups(const World& world, OwnRound own) {
  for (const Arm& arm : own.round.arms) {
    const UserId group{static_cast<std::uint32_t>(arm.user) % 3};
    own.rewards[index(arm.index)] = cases::reward_of(world, group, arm.features.values);
  }
  return own;
}

struct Comparison : cases::Comparison<PlainClub> {
  Comparison(const World& world, const Options& options, Arrival arrival, ThreadPool& threads)
      : cases::Comparison<PlainClub>(
            {.world = world,
             .arrival = arrival,
             .draw = [](const World& now,
                        std::uint64_t id) { return in_groups(now, cases::draw_round(now, id)); }},
            find_policy("club").build(options.values(), cases::setup_of(world, threads)),
            PlainClub(world, options, cases::setup_of(world, threads).seed)) {}

  std::size_t component_count() { return twin().component_count(); }
};

TEST(Club, ChoosesAsThePaperDoesOnDenseFeatures) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    for (const bool random : {false, true}) {
      SCOPED_TRACE(testing::Message() << random << ", late " << (arrival == Arrival::kLate));
      const World world{.features = 4, .users = 14};
      Comparison both(world, {.alpha_2 = 0.4, .random = random}, arrival, threads);
      both.start(in_groups(world, cases::draw_start(world)));
      EXPECT_EQ(both.component_count(), 1U);
      std::set<std::size_t> counts;
      for (std::uint64_t id = 0; id < 600; id += 50) {
        both.play(id, id + 50);
        counts.insert(both.component_count());
      }
      EXPECT_GE(counts.size(), 3U) << "splits come one after the other";
      EXPECT_GT(both.component_count(), 3U);
    }
  }
}

TEST(Club, ChoosesAsThePaperDoesOnBlocksWithAUserForEachArm) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    for (const bool random : {false, true}) {
      SCOPED_TRACE(testing::Message() << random << ", late " << (arrival == Arrival::kLate));
      const World world{.features = 3, .arms = 6, .users = 6, .blocks = true};
      Comparison both(world, {.lambda = 0.1, .alpha = 1.0, .alpha_2 = 1.1, .random = random},
                      arrival, threads);
      both.start(in_groups(world, cases::draw_start(world)));
      both.play(0, 60);
      const std::size_t before = both.component_count();
      both.play(60, 500);
      EXPECT_LT(before, both.component_count()) << "nothing came apart";
    }
  }
}

// No start data, users who are never served, and new ones.
TEST(Club, ChoosesAsThePaperDoesWhileUsersCome) {
  ThreadPool threads(2);
  for (const bool random : {false, true}) {
    SCOPED_TRACE(random);
    Comparison both({.features = 3, .users = 7}, {.alpha_2 = 0.25, .random = random},
                    Arrival::kAtOnce, threads);
    both.play(0, 150);
    EXPECT_GT(both.component_count(), 1U);
    both.add_users(3);
    const std::size_t joined = both.component_count();
    both.play(150, 300);
    EXPECT_GT(both.component_count(), joined);
    both.add_users(1);
    both.add_users(5);
    both.play(300, 600);
    EXPECT_GT(both.component_count(), 3U);
  }
}

TEST(Club, StartDataCutsNoEdges) {
  const World world{.users = 5};
  ThreadPool threads(1);
  const auto policy =
      find_policy("club").build({{"alpha_2", "0"}}, cases::setup_of(world, threads));
  cases::Session(world, Arrival::kAtOnce).start(*policy);
  const OwnRound own = cases::draw_round(world, 0);
  EXPECT_EQ(policy->cluster(own.round.arms[0])->size(), 5U);
  policy->learn(own.round.id, own.round.arms[0], 1.0F);
  EXPECT_EQ(*policy->cluster(own.round.arms[0]), std::vector<UserId>{own.round.arms[0].user});
}

TEST(Club, UsersInOneClusterShareWhatTheyKnow) {
  const World world;
  ThreadPool threads(1);
  const OwnRound own = cases::draw_round(world, 0);
  Arm arm = own.round.arms[0];
  arm.user = UserId{1};
  Round other = own.round;
  for (Arm& each : other.arms) {
    each.user = UserId{2};
  }
  for (const bool apart : {false, true}) {
    const auto policy = find_policy("club").build({{"alpha_2", apart ? "0" : "1"}},
                                                  cases::setup_of(world, threads));
    policy->learn(RoundId{0}, arm, 1.0F);
    const Score score = policy->scores(other)[0];
    EXPECT_EQ(score.estimate == 0.0, apart);
    EXPECT_EQ(score.cluster_size, apart ? 2U : 3U);
  }
}

TEST(Club, TwentyThousandUsersAreHeldInTwoHundredMebibytes) {
  constexpr std::uint32_t kUsers = 20'000;
  const World world{.features = 10, .arms = 1, .users = kUsers};
  ThreadPool threads(1);
  const auto policy =
      find_policy("club").build({{"alpha_2", "0.2"}}, cases::setup_of(world, threads));
  Rng rng(1, Stream::kTest);
  for (std::uint32_t user = 0; user < kUsers; ++user) {
    const std::vector<float> x = cases::draw_unit(rng, 10);
    policy->start(UserId{user}, {{x, 0}, static_cast<float>(rng.uniform())});
  }
  const std::size_t linked = policy->memory_bytes();
  EXPECT_GT(linked, kUsers * 2 * 100 * sizeof(double));  // M and its inverse
  EXPECT_LT(linked, std::size_t{64} << 20);
  for (std::uint32_t id = 0; id < 60; ++id) {  // some lose many edges
    const std::vector<float> x = cases::draw_unit(rng, 10);
    const Arm arm{.user = UserId{static_cast<std::uint32_t>(rng.below(kUsers))},
                  .features = {x, 0}};
    policy->learn(RoundId{id}, arm, rng.chance(0.5) ? 3.0F : -3.0F);
  }
  // What the edges may cost at most: a bit for each pair, both ways.
  const std::size_t most = linked + std::size_t{kUsers} * kUsers / 8 + kUsers * 200;
  EXPECT_LT(policy->memory_bytes(), most);
  EXPECT_LT(most, std::size_t{200} << 20);
}

TEST(Club, AMillionUsersOfWhomFewAreServedCostLittle) {
  const World world{.users = 1'000'000};
  ThreadPool threads(1);
  for (const char* alpha_2 : {"0.1", "1"}) {
    const auto policy =
        find_policy("club").build({{"alpha_2", alpha_2}}, cases::setup_of(world, threads));
    cases::Session session(world, Arrival::kAtOnce);
    session.play(*policy, 0, 300);
    EXPECT_LT(policy->memory_bytes(), std::size_t{1} << 20);
  }
}

TEST(Club, StatesOfOthersThanItsMembersAreRefused) {
  const World world{.users = 2};
  ThreadPool threads(1);
  const auto make = [&] { return find_policy("club").build({}, cases::setup_of(world, threads)); };
  const auto policy = make();
  cases::Session(world, Arrival::kAtOnce).start(*policy);
  // The group's state is the last RidgeState, and its count of samples comes before all numbers.
  std::string state = cases::saved(*policy);
  EXPECT_NO_THROW(cases::load(*make(), state));
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  LinearUsers users(2, world.inputs(), 1.0);
  const std::vector<float> x = {1.0F, 0.0F, 0.0F, 0.0F, 0.0F};
  RidgeState group(x.size(), 1.0);
  for (const std::uint32_t user : {0U, 1U}) {
    users.add(UserId{user}, {x, 0}, 1.0);
    group.add(x, 1.0);
  }
  const LinearClusters clusters(users, complete_user_graph(users.known()));
  group.add(x, 1.0);  // one too many
  users.save(writer);
  clusters.graph().save(writer);
  writer.write(std::uint64_t{0});  // samples given up
  group.save(writer);
  writer.write(std::uint64_t{0});
  writer.finish();
  expect_error(ErrorKind::kCorrupt, "not that of its members",
               [&] { cases::load(*make(), out.str()); });
}

TEST(Club, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value,
                          const std::string& words) {
    expect_error(ErrorKind::kUsage, words, [&] { find_policy("club").resolve({{name, value}}); });
  };
  refused("lambda", "0", "option lambda: expected a number in [1e-06, 1");
  refused("alpha", "-0.1", "option alpha: expected a number in [0, 1");
  refused("alpha_2", "-0.1", "option alpha_2: expected a number in [0, 1");
  refused("graph", "sparse", "option graph: expected complete | random");
  EXPECT_EQ(find_policy("club").options().size(), 4U);
}

}  // namespace
}  // namespace mcnb::club_test
