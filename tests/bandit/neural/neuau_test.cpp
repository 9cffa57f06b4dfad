#include <gtest/gtest.h>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/textbook_neural.h"

namespace mcnb::neuau_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;
using textbook::NeuralCase;

// One bandit that sees (arm, user): three features of the arm, two of the user. Every block of an
// arm's features has room for a user's behind it.
class TextbookAu {
 public:
  TextbookAu(const NeuralCase& what, const PolicySetup& setup)
      : case_(what),
        setup_(setup),
        model_(what, what.world.blocks ? 4 * (3 + 2) : 3 + 2, setup.seed) {}

  void start(UserId user, const Sample& sample) {
    model_.add({joined(sample.features, user).view(), sample.reward});
  }

  double score(RoundId, const Arm& arm) const {
    const plain::OwnFeatures x = joined(arm.features, arm.user);
    return model_.network.value(x.view()) + model_.deviation(x.view());
  }

  void learn(const Arm& arm, float reward) {
    start(arm.user, {arm.features, reward});
    if (case_.training_is_due(++rewards_)) {
      model_.network.train(NeuralCase::kTrainSteps,
                           Rng(setup_.seed, Stream::kTrainingOrder, rewards_));
    }
  }

 private:
  plain::OwnFeatures joined(const Features& features, UserId user) const {
    const std::span<const float> x = features.values;
    const std::span<const float> u = setup_.user_features.subspan(2 * index(user), 2);
    return {{x[0], x[1], x[2], u[0], u[1]}, features.offset / 3 * 5};
  }

  NeuralCase case_;
  PolicySetup setup_;
  textbook::UncertainNetwork model_;
  std::uint64_t rewards_ = 0;
};

TEST(NeuAu, ChoosesAsTheTextbookDoesOnConcatenatedFeatures) {
  for (const bool blocks : {false, true}) {
    for (const bool diagonal : {false, true}) {
      const NeuralCase what{.world = {.features = 3, .users = 6, .blocks = blocks},
                            .diagonal = diagonal};
      SCOPED_TRACE(what.name());
      ThreadPool threads(2);
      const PolicySetup setup = cases::setup_of(what.world, threads);
      const auto policy = find_policy("neuau").build(what.options(), setup);
      TextbookAu textbook(what, setup);
      textbook::expect_matches(*policy, textbook, what.world);
    }
  }
}

TEST(NeuAu, TellsUsersApartAtOnce) {
  const World world;
  ThreadPool threads(1);
  const auto policy = find_policy("neuau").build({}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 1);
  own.round.arms[0].user = UserId{0};
  own.round.arms[1].user = UserId{1};
  own.round.arms[1].features = own.round.arms[0].features;
  const std::vector<Score> scores = policy->scores(own.round);
  EXPECT_NE(scores[0].estimate, scores[1].estimate);
}

TEST(NeuAu, UsersWhoComeLaterHaveFeaturesOfZero) {
  const World world;
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of(world, threads);
  const auto policy = find_policy("neuau").build({}, setup);
  policy->add_users(1);
  std::vector<float> features(setup.user_features.begin(), setup.user_features.end());
  features.insert(features.end(), {0.0F, 0.0F});
  setup.user_features = features;
  setup.users = 4;
  const auto told = find_policy("neuau").build({}, setup);
  OwnRound own = cases::draw_round(world, 1);
  for (Arm& arm : own.round.arms) {
    arm.user = UserId{3};
  }
  const std::vector<Score> scores = policy->scores(own.round);
  const std::vector<Score> expected = told->scores(own.round);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].value, expected[i].value);
  }
}

TEST(NeuAu, IsRefusedWhereUsersHaveNoFeatures) {
  const World world;
  ThreadPool threads(1);
  const PolicySetup good = cases::setup_of(world, threads);
  const auto refused = [](const PolicySetup& setup, const std::string& words) {
    expect_error(ErrorKind::kUsage, "policy neuau: " + words,
                 [&] { make_policy(parse_policy("neuau"), setup); });
  };
  PolicySetup none = good;
  none.user_features = {};
  none.user_feature_count = 0;
  refused(none, "expected features of the users, got none");
  PolicySetup few = good;
  few.user_features = few.user_features.first(4);
  refused(few, "expected features of the users");
  PolicySetup bad = good;
  const std::vector<float> infinite(6, std::numeric_limits<float>::infinity());
  bad.user_features = infinite;
  refused(bad, "expected features of the users that are finite");
  PolicySetup uneven = good;
  uneven.block_length = 3;
  refused(uneven, "5 inputs: expected a multiple of the 3 of a block");
  PolicySetup large = good;
  large.inputs = 1U << 24;
  refused(large, "inputs with the users' features: expected at most");
}

TEST(NeuAu, RefusesBlocksItWasNotMadeFor) {
  const World world{.features = 3, .blocks = true};
  ThreadPool threads(1);
  const auto policy = find_policy("neuau").build({{"width", "5"}}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 4);
  const std::string before = cases::saved(*policy);
  own.round.arms[1].features.offset = 4;
  const std::string words = ": expected 3 features at a multiple of that, got 3 at 4";
  expect_error(ErrorKind::kInput, "round 4, arm 1" + words, [&] { policy->choose(own.round); });
  expect_error(ErrorKind::kInput, "feedback on round 4, arm 1" + words,
               [&] { policy->learn(RoundId{4}, own.round.arms[1], 1.0F); });
  expect_error(ErrorKind::kInput, "start of user 1" + words, [&] {
    policy->start(UserId{1}, {own.round.arms[1].features, 1.0F});
  });
  own.round.arms[1].features = {own.round.arms[0].features.values.first(2), 3};
  expect_error(ErrorKind::kInput, "got 2 at 3", [&] { policy->choose(own.round); });
  EXPECT_TRUE(cases::saved(*policy) == before);
}

}  // namespace
}  // namespace mcnb::neuau_test
