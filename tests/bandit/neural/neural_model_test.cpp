#include "mcnb/bandit/neural/neural_model.h"

#include <gtest/gtest.h>

#include "tests/bandit/policy_cases.h"

namespace mcnb::neural_model_test {
namespace {

using cases::World;
using plain::expect_error;

// Every policy with a network trained by a schedule, except M-CNB.
std::vector<std::string> neural_policies() {
  std::vector<std::string> names;
  for (const PolicyHelp& help : policy_help()) {
    const bool is_neural = std::ranges::any_of(
        help.options, [](const OptionHelp& option) { return option.name == "train_steps"; });
    if (is_neural) {
      names.push_back(help.name);
    }
  }
  return names;
}

// Steps of training after some rounds, less those of the start data.
std::uint64_t steps_of(const std::string& text, const World& world, std::uint64_t rounds) {
  ThreadPool threads(2);
  const auto policy = make_policy(parse_policy(text), cases::setup_of(world, threads));
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.start(*policy);
  const std::uint64_t before = policy->steps().training;
  session.play(*policy, 0, rounds);
  return policy->steps().training - before;
}

TEST(NeuralPolicies, AllHaveTheSameNetworkAndTraining) {
  const OptionValues standard = neural_option_table().values({});
  const std::vector<std::string> names = neural_policies();
  EXPECT_GE(names.size(), 5U);
  for (const std::string& name : names) {
    const OptionValues options = resolved_options(parse_policy(name));
    for (const auto& [option, value] : standard) {
      EXPECT_EQ(options.at(option), value) << name << " " << option;
    }
  }
  EXPECT_EQ(standard.at("train_steps"), "1500");
  // M-CNB has the same defaults. Its training steps are the sum of two options.
  const OptionValues mcnb = resolved_options(parse_policy("mcnb:preset=experiments"));
  for (const char* option : {"width", "depth", "initialisation", "biases", "training",
                             "train_every", "train_often_until", "train_every_later", "optimiser",
                             "learning_rate", "stop_loss", "history_limit"}) {
    EXPECT_EQ(mcnb.at(option), standard.at(option)) << option;
  }
  EXPECT_EQ(std::stoi(mcnb.at("user_steps")) + std::stoi(mcnb.at("theta_steps")), 1500);
}

TEST(NeuralPolicies, AllTakeTheSameNumberOfStepsInEveryTraining) {
  for (const bool blocks : {false, true}) {
    const World world{.features = 3, .users = 5, .blocks = blocks};
    const std::string schedule =
        ":width=8:stop_loss=0:train_every=5:train_often_until=20:train_every_later=10";
    const std::uint64_t expected = 6 * 90;  // after 5, 10, 15, 20, 30 and 40 rewards
    for (const std::string& name : neural_policies()) {
      EXPECT_EQ(steps_of(name + schedule + ":train_steps=90", world, 45), expected) << name;
    }
    EXPECT_EQ(
        steps_of("mcnb:preset=experiments:user_steps=30:theta_steps=60" + schedule, world, 45),
        expected);
  }
}

TEST(NeuralPolicies, AllTakeOneStepASampleOnline) {
  for (const std::string& name : neural_policies()) {
    EXPECT_EQ(steps_of(name + ":width=8:training=online", {}, 30), 30U) << name;
  }
}

TEST(NeuralPolicies, AStepIsNotTakenOnceTheLossIsSmall) {
  for (const std::string& name : neural_policies()) {
    // A loss that every epoch has: one epoch each.
    const std::uint64_t steps = steps_of(name + ":width=8:stop_loss=1e9", {}, 10);
    EXPECT_LE(steps, 10U + 3U) << name;
    EXPECT_GE(steps, 1U) << name;
  }
}

TEST(NeuralModel, TrainsByItsSchedule) {
  const NeuralOptions options{
      .replay = {.train_every = 10, .train_often_until = 30, .train_every_later = 25}};
  std::vector<std::uint64_t> due;
  for (std::uint64_t rewards = 1; rewards <= 105; ++rewards) {
    if (options.training_is_due(rewards)) {
      due.push_back(rewards);
    }
  }
  EXPECT_EQ(due, (std::vector<std::uint64_t>{10, 20, 30, 50, 75, 100}));
}

TEST(NeuralModel, SaysWhenItHasTrained) {
  const NeuralOptions options{
      .network = {.width = 4}, .replay = {.train_every = 3}, .train_steps = 5};
  NeuralModel model(options, 2, 1);
  const std::vector<float> start(model.network().begin(), model.network().end());
  const std::vector<float> x = {0.6F, 0.8F};
  for (std::uint64_t i = 1; i <= 7; ++i) {
    bool trained = false;
    model.take_in({{x}, 9.0F}, [] { return "here"; });
    model.count_reward([&] { trained = true; });
    EXPECT_EQ(trained, i % 3 == 0) << i;
    EXPECT_EQ(plain::same_bits(model.network(), start), i < 3) << i;
  }
  EXPECT_EQ(model.step_count(), 10U);
  EXPECT_EQ(model.reward_count(), 7U);
}

TEST(NeuralModel, AStepThatWouldLeaveTheFiniteNumbersIsDamped) {
  NeuralModel model({.network = {.width = 4}, .training = TrainingMode::kOnline}, 2, 1);
  const std::vector<float> large = {1e20F, 1e20F};
  for (int i = 0; i < 100; ++i) {
    model.take_in({{large}, i % 2 == 0 ? 1e6F : -1e6F}, [] { return "here"; });
    ASSERT_TRUE(all_finite(model.network())) << i;
  }
  EXPECT_EQ(model.step_count(), 100U);
}

TEST(NeuralModel, AStepOnASampleWithoutAFiniteValueIsRefusedBeforeAnythingChanges) {
  NeuralModel model({.network = {.width = 4}, .training = TrainingMode::kOnline}, 2, 1);
  const std::vector<float> start(model.network().begin(), model.network().end());
  const std::vector<float> x = {0.6F, 0.8F};
  const std::vector<float> large = {INFINITY, 1.0F};
  expect_error(ErrorKind::kInput, "here: the network would leave the finite numbers", [&] {
    model.take_in({{large}, 1.0F}, [] { return "here"; });
  });
  EXPECT_TRUE(plain::same_bits(model.network(), start));
  EXPECT_EQ(model.step_count(), 0U);
  model.take_in({{x}, 1.0F}, [] { return "here"; });
  EXPECT_FALSE(plain::same_bits(model.network(), start));
}

TEST(NeuralModel, ATrainingThatLeavesTheFiniteNumbersIsUndone) {
  const NeuralOptions options{.network = {.width = 4},
                              .replay = {.train_every = 2, .optimiser = Optimiser::kSgd}};
  NeuralModel model(options, 2, 1);
  const std::vector<float> start(model.network().begin(), model.network().end());
  const std::vector<float> large = {1e25F, 1e25F};
  const auto learn = [&] {
    model.take_in({{large}, 1.0F}, [] { return "here"; });
    model.count_reward([] { FAIL() << "there is nothing to follow"; });
  };
  learn();
  expect_error(ErrorKind::kInput, "the training after 2 rewards: the network would leave", learn);
  EXPECT_TRUE(plain::same_bits(model.network(), start));
  EXPECT_EQ(model.step_count(), 0U);
  EXPECT_EQ(model.reward_count(), 2U);
}

TEST(NeuralModel, ATrainingThatItsOwnerCannotFollowIsUndone) {
  NeuralModel model({.network = {.width = 4}, .replay = {.train_every = 1}, .train_steps = 5}, 2,
                    1);
  const std::vector<float> start(model.network().begin(), model.network().end());
  const std::vector<float> x = {0.6F, 0.8F};
  model.take_in({{x}, 1.0F}, [] { return "here"; });
  expect_error(ErrorKind::kInput, "cannot",
               [&] { model.count_reward([] { throw Error(ErrorKind::kInput, "cannot"); }); });
  EXPECT_TRUE(plain::same_bits(model.network(), start));
}

TEST(NeuralModel, RefusesAStateThatIsNotFinite) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  writer.write(std::uint64_t{0});
  writer.write(std::uint64_t{0});
  std::vector<float> network(12, 0.5F);
  network[7] = INFINITY;
  writer.write_all(network);
  writer.finish();
  std::istringstream in(out.str());
  StateReader reader(in, "state", {.kind = "test"});
  NeuralModel model({.network = {.width = 4}}, 2, 1);
  expect_error(ErrorKind::kCorrupt, "a number that is not finite", [&] { model.load(reader); });
}

TEST(NeuralModel, RefusesAStateOfAnotherNetwork) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  NeuralModel({.network = {.width = 4}}, 2, 1).save(writer);
  writer.finish();
  for (const std::uint32_t inputs : {1U, 3U}) {
    std::istringstream in(out.str());
    StateReader reader(in, "state", {.kind = "test"});
    NeuralModel other({.network = {.width = 4}}, inputs, 1);
    expect_error(ErrorKind::kCorrupt, "state", [&] { other.load(reader); });
  }
}

}  // namespace
}  // namespace mcnb::neural_model_test
