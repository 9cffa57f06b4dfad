#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <functional>

#include "tests/bandit/policy_cases.h"

namespace mcnb::linucb_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;

constexpr double kTolerance = 1e-9;  // of scores of size one, both in double precision

// LinUCB in textbook form: full matrices over the whole feature vector, inverted each time.
class PlainLinUcb {
 public:
  PlainLinUcb(const World& world, double lambda, double alpha, bool each)
      : shape_{.inputs = world.inputs()}, alpha_(alpha), each_(each) {
    const Eigen::Index d = world.inputs();
    m_.assign(world.users, lambda * Eigen::MatrixXd::Identity(d, d));
    b_.assign(world.users, Eigen::VectorXd::Zero(d));
  }

  double score(const Arm& arm) const {
    const Eigen::VectorXd x = whole(arm.features);
    const std::size_t state = each_ ? index(arm.user) : 0;
    const Eigen::MatrixXd inverse = m_[state].inverse();
    return x.dot(inverse * b_[state]) +
           alpha_ * std::sqrt(x.dot(inverse * x) * std::log(1.0 + static_cast<double>(time_)));
  }

  void add(UserId user, const Features& features, double reward) {
    const Eigen::VectorXd x = whole(features);
    const std::size_t state = each_ ? index(user) : 0;
    m_[state] += x * x.transpose();
    b_[state] += reward * x;
  }
  void next_round() { ++time_; }

 private:
  Eigen::VectorXd whole(const Features& features) const {
    const std::vector<double> x = plain::dense(shape_, features);
    return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  }

  NetworkShape shape_;
  double alpha_;
  bool each_;
  std::uint64_t time_ = 1;
  std::vector<Eigen::MatrixXd> m_;
  std::vector<Eigen::VectorXd> b_;
};

void expect_matches_textbook(const World& world, bool each, double lambda) {
  SCOPED_TRACE(testing::Message() << (world.blocks ? "blocks" : "dense") << ", "
                                  << (each ? "each" : "one") << ", lambda " << lambda);
  ThreadPool threads(2);
  const auto policy = find_policy("linucb").build(
      {{"users", each ? "each" : "one"}, {"alpha", "0.3"}, {"lambda", number_text(lambda)}},
      cases::setup_of(world, threads));
  PlainLinUcb textbook(world, lambda, 0.3, each);
  const OwnRound start = cases::draw_start(world);
  for (const Arm& arm : start.round.arms) {
    const float reward = start.rewards[index(arm.index)];
    policy->start(arm.user, {arm.features, reward});
    textbook.add(arm.user, arm.features, reward);
  }
  for (std::uint64_t id = 0; id < 400; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> scores = policy->scores(own.round);
    std::vector<Score> expected(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      expected[i].value = textbook.score(own.round.arms[i]);
      ASSERT_NEAR(scores[i].value, expected[i].value, kTolerance) << "round " << id << ", " << i;
      ASSERT_DOUBLE_EQ(scores[i].value, cases::sum_of(scores[i]));
    }
    const ArmIndex choice = policy->choose(own.round);
    ASSERT_EQ(choice, highest(expected)) << "round " << id;
    const float reward = own.rewards[index(choice)];
    policy->learn(own.round.id, own.arm(choice), reward);
    textbook.add(own.arm(choice).user, own.arm(choice).features, reward);
    textbook.next_round();
  }
}

TEST(LinUcb, ChoosesAsTheTextbookDoesOnDenseFeatures) {
  for (const bool each : {false, true}) {
    expect_matches_textbook({.features = 6}, each, 1.0);
    expect_matches_textbook({.features = 6, .seed = 2}, each, 0.01);
  }
}

TEST(LinUcb, ChoosesAsTheTextbookDoesOnBlocksOfALongVector) {
  for (const bool each : {false, true}) {
    expect_matches_textbook({.blocks = true}, each, 1.0);
    expect_matches_textbook({.users = 4, .blocks = true, .seed = 2}, each, 0.01);
  }
}

TEST(LinUcb, ExploresInTheFirstRound) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("linucb").build({{"alpha", "2"}, {"lambda", "4"}}, setup_of(world, threads));
  const OwnRound own = cases::draw_round(world, 0);
  for (const Score& score : policy->scores(own.round)) {
    EXPECT_EQ(score.estimate, 0.0);
    EXPECT_NEAR(score.value, 2.0 * std::sqrt(std::log(2.0) / 4.0), 1e-6);  // |x| = 1, t = 1
  }
}

TEST(LinUcb, OneStateLearnsForAllUsersAndEachForItself) {
  const World world;
  ThreadPool threads(1);
  const OwnRound own = cases::draw_round(world, 0);
  Arm arm = own.round.arms[0];
  arm.user = UserId{1};
  Round other = own.round;
  for (Arm& each : other.arms) {
    each.user = UserId{2};
  }
  for (const bool each : {false, true}) {
    const auto policy = find_policy("linucb").build({{"users", each ? "each" : "one"}},
                                                    cases::setup_of(world, threads));
    policy->learn(RoundId{0}, arm, 1.0F);
    const Score score = policy->scores(other)[0];
    EXPECT_EQ(score.estimate == 0.0, each);
    EXPECT_EQ(score.cluster_size, each ? 1U : world.users);
    EXPECT_GT(score.part("uncertainty"), 0.0);
  }
}

TEST(LinUcb, GivesTiesToTheLowestIndex) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("linucb").build({{"alpha", "0"}}, cases::setup_of(world, threads));
  EXPECT_EQ(policy->choose(cases::draw_round(world, 0).round), ArmIndex{0});
  OwnRound own = cases::draw_round(world, 1);
  policy->learn(RoundId{1}, own.arm(ArmIndex{3}), 1.0F);
  std::ranges::transform(own.features[3], own.features[0].begin(), std::negate());
  own.round.arms[1].features = own.round.arms[3].features;
  own.round.arms[2].features = own.round.arms[0].features;
  EXPECT_EQ(policy->choose(own.round), ArmIndex{1});
}

TEST(LinUcb, RefusesBlocksThatOverlapInPart) {
  ThreadPool threads(1);
  const World world{.features = 20, .arms = 1};
  const auto policy = find_policy("linucb").build({}, cases::setup_of(world, threads));
  const std::vector<float> values(20, 0.1F);
  const auto arm = [&](std::uint32_t index, std::uint32_t offset, std::size_t count) {
    return Arm{.index = ArmIndex{index}, .features = {{values.data(), count}, offset}};
  };
  policy->learn(RoundId{0}, arm(0, 4, 4), 1.0F);
  policy->learn(RoundId{1}, arm(0, 12, 4), 1.0F);
  const std::string before = cases::saved(*policy);
  const auto refused = [&](std::uint32_t offset, std::size_t count) {
    const Arm bad = arm(0, offset, count);
    expect_error(ErrorKind::kInput, "round 9, arm 0: features ",
                 [&] { policy->learn(RoundId{9}, bad, 1.0F); });
    expect_error(ErrorKind::kInput, "round 9, arm 0: features ", [&] {
      policy->choose({RoundId{9}, {bad}});
    });
    expect_error(ErrorKind::kInput, "start of user 0: features ", [&] {
      policy->start(UserId{0}, {bad.features, 1.0F});
    });
  };
  refused(0, 20);  // around both
  refused(2, 4);   // over the beginning of one
  refused(7, 2);   // over the end
  refused(5, 2);   // inside
  refused(4, 3);   // the same beginning
  refused(4, 5);
  refused(5, 3);  // the same end
  refused(10, 3);
  expect_error(ErrorKind::kInput, "round 9, arm 1: features 18 to 19 overlap the block 17 to 18",
               [&] {
                 policy->choose({RoundId{9}, {arm(0, 17, 2), arm(1, 18, 2)}});
               });
  EXPECT_TRUE(cases::saved(*policy) == before);
  policy->choose({RoundId{9}, {arm(0, 0, 4), arm(1, 8, 4), arm(2, 4, 4), arm(3, 16, 4)}});
  policy->learn(RoundId{9}, arm(1, 8, 4), 1.0F);
  policy->learn(RoundId{9}, arm(3, 16, 4), 1.0F);
}

TEST(LinUcb, RefusesBlocksThatAreTooLong) {
  ThreadPool threads(1);
  const World world{.features = 16'385};
  const auto policy = find_policy("linucb").build({}, cases::setup_of(world, threads));
  const OwnRound own = cases::draw_round(world, 0);
  expect_error(ErrorKind::kInput, "16385 features", [&] { policy->choose(own.round); });
  expect_error(ErrorKind::kInput, "16385 features",
               [&] { policy->learn(RoundId{0}, own.round.arms[0], 1.0F); });
}

TEST(LinUcb, ALongVectorCostsOnlyItsBlocks) {
  ThreadPool threads(1);
  const World world{.features = 4, .arms = 500, .users = 500, .blocks = true};
  const auto policy =
      find_policy("linucb").build({{"users", "each"}}, cases::setup_of(world, threads));
  const std::size_t empty = policy->memory_bytes();
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.play(*policy, 0, 40);
  EXPECT_GT(policy->memory_bytes(), empty);
  EXPECT_LT(policy->memory_bytes(), empty + 40 * 1024);  // a state of 4 features is 320 bytes
}

TEST(LinUcb, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value,
                          const std::string& words) {
    expect_error(ErrorKind::kUsage, words, [&] { find_policy("linucb").resolve({{name, value}}); });
    expect_error(ErrorKind::kUsage, "\"" + value + "\"", [&] {
      find_policy("linucb").resolve({{name, value}});
    });
  };
  refused("lambda", "0", "option lambda: expected a number in [1e-06, 1");
  refused("lambda", "-1", "option lambda");
  refused("alpha", "-0.1", "option alpha: expected a number in [0, 1");
  refused("alpha", "nan", "option alpha");
  refused("users", "two", "option users: expected one | each | hybrid");
  refused("gamma", "gamma", "expected one of the options lambda, alpha, users, products");
  refused("products", "yes", "option products: must be no unless users=hybrid (got \"yes\")");
  EXPECT_EQ(find_policy("linucb").options().size(), 4U);
}

}  // namespace
}  // namespace mcnb::linucb_test
