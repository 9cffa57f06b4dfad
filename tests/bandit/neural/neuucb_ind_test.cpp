#include <gtest/gtest.h>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/textbook_neural.h"

namespace mcnb::neuucb_ind_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;
using textbook::NeuralCase;

// One bandit per user, made when the user gets data. A training's steps go to the users with new
// data in equal shares, the rest to those that got theirs first.
class TextbookInd {
 public:
  TextbookInd(const NeuralCase& what, const PolicySetup& setup)
      : case_(what), setup_(setup), nobody_(what, setup.inputs, setup.seed) {}

  void start(UserId user, const Sample& sample) { add(user, sample); }

  double score(RoundId, const Arm& arm) const {
    const auto found = users_.find(arm.user);
    const textbook::UncertainNetwork& own = found == users_.end() ? nobody_ : found->second;
    return own.network.value(arm.features) + own.deviation(arm.features);
  }

  void learn(const Arm& arm, float reward) {
    add(arm.user, {arm.features, reward});
    if (!case_.training_is_due(++rewards_)) {
      return;
    }
    const std::size_t count = new_data_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t left_over = NeuralCase::kTrainSteps % count;
      const std::uint64_t steps = NeuralCase::kTrainSteps / count + (i < left_over ? 1 : 0);
      users_.at(new_data_[i])
          .network.train(steps, Rng(setup_.seed, Stream::kTrainingOrder, rewards_,
                                    static_cast<std::uint32_t>(new_data_[i])));
    }
    new_data_.clear();
  }

 private:
  void add(UserId user, const Sample& sample) {
    users_.try_emplace(user, case_, setup_.inputs, setup_.seed).first->second.add(sample);
    if (std::ranges::find(new_data_, user) == new_data_.end()) {
      new_data_.push_back(user);
    }
  }

  NeuralCase case_;
  PolicySetup setup_;
  textbook::UncertainNetwork nobody_;
  std::map<UserId, textbook::UncertainNetwork> users_;
  std::vector<UserId> new_data_;
  std::uint64_t rewards_ = 0;
};

TEST(NeuUcbInd, ChoosesAsTheTextbookDoes) {
  for (const bool blocks : {false, true}) {
    for (const bool diagonal : {false, true}) {
      for (const bool online : {false, true}) {
        const NeuralCase what{.world = {.features = 3, .users = 7, .blocks = blocks},
                              .biases = online,
                              .diagonal = diagonal,
                              .online = online};
        SCOPED_TRACE(what.name());
        ThreadPool threads(2);
        const PolicySetup setup = cases::setup_of(what.world, threads);
        const auto policy = find_policy("neuucb-ind").build(what.options(), setup);
        TextbookInd textbook(what, setup);
        textbook::expect_matches(*policy, textbook, what.world);
      }
    }
  }
}

TEST(NeuUcbInd, KeepsTheDiagonalUnlessTold) {
  EXPECT_EQ(find_policy("neuucb-ind").resolve({}).at("matrix"), "diagonal");
  EXPECT_EQ(find_policy("neuucb-one").resolve({}).at("matrix"), "auto");
}

// A world of one user, with its number.
OwnRound round_of(const World& world, std::uint64_t id, std::uint32_t user) {
  OwnRound own = cases::draw_round(world, id);
  for (Arm& arm : own.round.arms) {
    arm.user = UserId{user};
  }
  return own;
}

TEST(NeuUcbInd, UsersWithoutDataCostNothing) {
  const World world{.features = 10, .users = 20'000};
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of({.features = 10}, threads);
  setup.user_features = {};
  setup.user_feature_count = 0;
  setup.users = 3;
  const auto few = find_policy("neuucb-ind").build({}, setup);
  setup.users = 20'000;
  const auto many = find_policy("neuucb-ind").build({}, setup);
  EXPECT_EQ(many->memory_bytes(), few->memory_bytes());
  const std::size_t before = many->memory_bytes();
  const std::size_t learner = 1100 * (sizeof(float) + sizeof(double));
  // A decision for a user without data allocates no learner.
  for (std::uint32_t user = 0; user < 20'000; user += 1000) {
    many->choose(round_of(world, user, user).round);
  }
  EXPECT_LE(many->memory_bytes(), before + 8192);
  for (std::uint32_t i = 0; i < 5; ++i) {
    const OwnRound own = round_of(world, i, 19'999 - i);
    many->learn(own.round.id, own.round.arms[0], 1.0F);
    many->learn(own.round.id, own.round.arms[1], 0.0F);  // the second one makes nothing new
  }
  EXPECT_GE(many->memory_bytes(), before + 5 * learner);
  EXPECT_LE(many->memory_bytes(), before + 8 * learner);
}

TEST(NeuUcbInd, AllUsersStartFromTheSameNetwork) {
  const World world;
  ThreadPool threads(1);
  const PolicySetup setup = cases::setup_of(world, threads);
  const auto policy = find_policy("neuucb-ind").build({{"matrix", "full"}}, setup);
  const auto one = find_policy("neuucb-one").build({{"matrix", "full"}}, setup);
  for (std::uint32_t user = 0; user < 3; ++user) {
    const OwnRound own = round_of(world, user, user);
    const std::vector<Score> scores = policy->scores(own.round);
    const std::vector<Score> shared = one->scores(own.round);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      EXPECT_EQ(scores[i].value, shared[i].value);
      EXPECT_EQ(scores[i].part("uncertainty"), shared[i].part("uncertainty"));
      EXPECT_EQ(scores[i].cluster_size, 1U);
    }
  }
}

TEST(NeuUcbInd, ATrainingIsSharedByAllUsersWithNewData) {
  const World world{.users = 8};
  ThreadPool threads(2);
  const auto policy =
      find_policy("neuucb-ind")
          .build({{"width", "40"}, {"train_every", "6"}, {"train_steps", "11"}, {"stop_loss", "0"}},
                 cases::setup_of(world, threads));
  const auto estimate = [&](std::uint32_t user) {
    return policy->scores(round_of(world, 999, user).round)[0].estimate;
  };
  const double start = estimate(7);
  // Users 0 to 3 get rewards; the last one is user 1's.
  for (const std::uint32_t user : {2U, 0U, 3U, 0U, 2U, 1U}) {
    EXPECT_EQ(policy->steps().training, 0U);
    const OwnRound own = round_of(world, user, user);
    policy->learn(own.round.id, own.round.arms[0], 1.0F);
  }
  EXPECT_EQ(policy->steps().training, 11U);
  for (std::uint32_t user = 0; user < 8; ++user) {
    EXPECT_EQ(estimate(user) != start, user < 4) << user;
  }
  // Only user 5 gets rewards: the next training is all for it.
  const double two = estimate(2);
  for (std::uint64_t id = 0; id < 6; ++id) {
    const OwnRound own = round_of(world, 100 + id, 5);
    policy->learn(own.round.id, own.round.arms[0], 1.0F);
  }
  EXPECT_EQ(policy->steps().training, 22U);
  EXPECT_EQ(estimate(2), two);
  EXPECT_NE(estimate(5), start);
}

TEST(NeuUcbInd, UsersThatFindNoStepLeftKeepTheirPlaceInTheLine) {
  const World world{.users = 8};
  ThreadPool threads(1);
  const auto policy =
      find_policy("neuucb-ind")
          .build({{"width", "40"}, {"train_every", "5"}, {"train_steps", "2"}, {"stop_loss", "0"}},
                 cases::setup_of(world, threads));
  const auto estimate = [&](std::uint32_t user) {
    return policy->scores(round_of(world, 999, user).round)[0].estimate;
  };
  const double start = estimate(7);
  const auto trained = [&] {
    std::vector<std::uint32_t> users;
    for (std::uint32_t user = 0; user < 8; ++user) {
      if (estimate(user) != start) {
        users.push_back(user);
      }
    }
    return users;
  };
  const auto learn = [&](std::uint32_t user, std::uint64_t id) {
    const OwnRound own = round_of(world, id, user);
    policy->learn(own.round.id, own.round.arms[0], 5.0F);
  };
  for (const std::uint32_t user : {4U, 1U, 3U, 0U, 2U}) {
    learn(user, user);
  }
  EXPECT_EQ(trained(), (std::vector<std::uint32_t>{1, 4}));
  for (std::uint64_t id = 10; id < 15; ++id) {
    learn(4, id);  // now behind the others
  }
  EXPECT_EQ(trained(), (std::vector<std::uint32_t>{0, 1, 3, 4}));
  const double four = estimate(4);
  for (std::uint64_t id = 20; id < 25; ++id) {
    learn(4, id);
  }
  EXPECT_EQ(trained(), (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_NE(estimate(4), four);
  EXPECT_EQ(policy->steps().training, 6U);
}

TEST(NeuUcbInd, RefusesFeaturesTooLargeForTheNetwork) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("neuucb-ind").build({{"width", "50"}}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 4);
  std::ranges::fill(own.features[1], 3e38F);
  const std::string before = cases::saved(*policy);
  expect_error(ErrorKind::kInput, "round 4, arm 1: the network's value is",
               [&] { policy->choose(own.round); });
  expect_error(ErrorKind::kInput, "feedback on round 4, arm 1: the network's value is",
               [&] { policy->learn(RoundId{4}, own.round.arms[1], 1.0F); });
  expect_error(ErrorKind::kInput, "start of user 2: the network's value is", [&] {
    policy->start(UserId{2}, {own.round.arms[1].features, 1.0F});
  });
  EXPECT_TRUE(cases::saved(*policy) == before);
}

TEST(NeuUcbInd, RefusesStatesThatDoNotFitTogether) {
  const World world;  // three users
  ThreadPool threads(1);
  const NetworkShape shape{.inputs = world.inputs(), .width = 4};
  const std::vector<float> network(shape.parameter_count(), 0.5F);
  const std::vector<double> diagonal(shape.parameter_count(), 1.0);
  const auto load = [&](const std::vector<UserId>& owners, std::size_t histories,
                        const std::vector<std::uint32_t>& waiting) {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    writer.write(std::uint64_t{3});  // users
    writer.write(std::uint64_t{0});  // rewards
    writer.write(std::uint64_t{0});  // steps
    writer.write(static_cast<std::uint64_t>(owners.size()));
    for (const UserId owner : owners) {
      writer.write(owner);
      writer.write_all(network);
      writer.write_all(diagonal);
    }
    Histories empty(7, 0);
    empty.add_users(histories);
    empty.save(writer);
    writer.write_all(waiting);
    writer.finish();
    const auto policy =
        find_policy("neuucb-ind").build({{"width", "4"}}, cases::setup_of(world, threads));
    cases::load(*policy, out.str());
  };
  EXPECT_NO_THROW(load({UserId{2}, UserId{0}}, 2, {1, 0}));
  const auto refused = [&](const std::string& words, const auto&... parts) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load(parts...); });
  };
  using Owners = std::vector<UserId>;
  using Waiting = std::vector<std::uint32_t>;
  refused("belongs to a user that", Owners{UserId{3}}, 1U, Waiting{});
  refused("belongs to a user that", Owners{UserId{1}, UserId{1}}, 2U, Waiting{});
  refused("not one history for each", Owners{UserId{1}}, 2U, Waiting{});
  refused("waits for a training", Owners{UserId{1}, UserId{0}}, 2U, Waiting{2});
  refused("waits for a training", Owners{UserId{1}, UserId{0}}, 2U, Waiting{0, 0});
}

}  // namespace
}  // namespace mcnb::neuucb_ind_test
