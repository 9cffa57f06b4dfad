#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "tests/bandit/mcnb_cases.h"

namespace mcnb::mcnb_options_test {
namespace {

using cases::with;
using cases::World;
using plain::expect_error;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The message names the option, its range and the value.
void refused(const std::string& name, const std::string& value, const std::string& expected) {
  const auto parse = [&] { parse_mcnb_options({{name, value}}); };
  expect_error(ErrorKind::kUsage, "option " + name + ": expected " + expected, parse);
  expect_error(ErrorKind::kUsage, ", got \"" + value + "\"", parse);
}

TEST(McnbOptions, OutOfRangeAreRefused) {
  for (const char* gamma : {"0", "1", "1.5", "-0.1", "nan", "inf", "", "0.4x", "0,4"}) {
    refused("gamma", gamma, "a number in (0, 1)");
  }
  for (const char* nu : {"1", "0.5", "-2", "nan", "inf"}) {
    refused("nu", nu, "a number in (1, ");
  }
  for (const char* delta : {"0", "1", "-1", "nan"}) {
    refused("delta", delta, "a number in (0, 1)");
  }
  refused("S", "-1", "a number in [0, ");
  refused("eta_1", "0", "a number in (0, 1000]");
  refused("eta_2", "-0.1", "a number in (0, 1000]");
  refused("exploration", "-1", "a number in [0, ");
  for (const char* width : {"0", "-5", "1.5", "16385"}) {
    refused("width", width, "a whole number in [1, 16384]");
  }
  refused("depth", "1", "a whole number in [2, 64]");
  refused("meta_steps", "0", "a whole number in [1, 10000]");
  refused("meta_steps", "-1", "a whole number in [1, 10000]");
  refused("meta_samples", "-1", "a whole number in [0, ");
  refused("history_limit", "-1", "a whole number in [0, ");
  refused("scan_limit", "-1", "a whole number in [0, ");
  refused("keep_arms", "10001", "a whole number in [0, 10000]");
  refused("train_every", "0", "a whole number in [1, ");
  refused("train_every_later", "0", "a whole number in [1, ");
  refused("learning_rate", "0", "a number in (0, 1000]");
  refused("stop_loss", "nan", "a number in [0, ");
}

TEST(McnbOptions, UnknownNamesAndChoicesAreRefused) {
  refused("preset", "best", "algorithm | experiments | default");
  refused("initialisation", "xavier", "paper | symmetric");
  refused("biases", "maybe", "yes or no");
  refused("meta_draw", "two", "one | all");
  refused("feedback", "everyone", "cluster | served");
  refused("training", "never", "online | replay");
  refused("scan", "some", "all | sampled");
  refused("optimiser", "newton", "adam | sgd");
  refused("gama", "gama", "one of the options gamma, nu, S, delta");
  expect_error(ErrorKind::kUsage, "best", [] { mcnb_preset("best"); });
}

TEST(McnbOptions, AWalkOverSomeLearnersCannotTeachTheWholeCluster) {
  const char* const message = "option scan: expected all with feedback=cluster";
  expect_error(ErrorKind::kUsage, message, [] {
    parse_mcnb_options({{"feedback", "cluster"}, {"scan", "sampled"}});
  });
  McnbOptions options = mcnb_preset("algorithm");
  check_mcnb_options(options);
  options.scan = Scan::kSampled;
  expect_error(ErrorKind::kUsage, message, [&] { check_mcnb_options(options); });
  options.feedback = Feedback::kServed;
  check_mcnb_options(options);
}

// Options that were set in the struct are checked like options that were parsed.
TEST(McnbOptions, AreJudgedWhenAPolicyIsMadeToo) {
  const World world;
  ThreadPool threads(1);
  const auto refused = [&](const std::string& words,
                           const std::function<void(McnbOptions&)>& change) {
    expect_error(ErrorKind::kUsage, words,
                 [&] { Mcnb(with(McnbOptions{}, change), cases::setup_of(world, threads)); });
  };
  for (const double gamma : {0.0, 1.0, 1.5, -1.0, kNan}) {
    refused("option gamma: expected a number in (0, 1)", [&](auto& o) { o.gamma = gamma; });
  }
  refused("option nu: expected a number in (1, ", [](auto& o) { o.nu = 1.0; });
  refused("option delta: expected a number in (0, 1), got \"0\"", [](auto& o) { o.delta = 0.0; });
  refused("option eta_1", [](auto& o) { o.eta_1 = kNan; });
  refused("option meta_steps: expected a whole number in [1, 10000], got \"0\"",
          [](auto& o) { o.meta_steps = 0; });
  refused("option width: expected a whole number in [1, 16384], got \"0\"",
          [](auto& o) { o.network.width = 0; });
  refused("option width: expected a whole number in [1, 16384], got \"4294967297\"",
          [](auto& o) { o.network.width = 4294967297; });
  refused("option depth", [](auto& o) { o.network.depth = 1; });
  PolicySetup without_features = cases::setup_of(world, threads);
  without_features.user_features = {};
  without_features.user_feature_count = 0;
  expect_error(ErrorKind::kUsage,
               "option pre_clusters: must be 0 because these users have no features (got 3)", [&] {
                 Mcnb(with(McnbOptions{}, [](auto& o) { o.pre_clusters = 3; }), without_features);
               });
  PolicySetup nobody = cases::setup_of(world, threads);
  nobody.users = 0;
  expect_error(ErrorKind::kUsage, "users: expected at least 1",
               [&] { Mcnb(McnbOptions{}, nobody); });
  PolicySetup short_of_features = cases::setup_of(world, threads);
  const std::vector<float> features(2 * world.users - 1);
  short_of_features.user_features = features;
  short_of_features.user_feature_count = 2;
  expect_error(ErrorKind::kUsage, "option pre_clusters", [&] {
    Mcnb(with(McnbOptions{}, [](auto& o) { o.pre_clusters = 2; }), short_of_features);
  });
}

TEST(McnbOptions, OnlyTheDefaultPresetsSampleLearners) {
  for (const char* name : {"default", "default-classification"}) {
    EXPECT_EQ(mcnb_preset(name).scan, Scan::kSampled) << name;
    EXPECT_EQ(mcnb_preset(name).scan_limit, 20'000U) << name;
  }
  for (const char* name : {"algorithm", "experiments"}) {
    EXPECT_EQ(mcnb_preset(name).scan, Scan::kAll) << name;
  }
}

// The values are those of the specification, section 3.
TEST(McnbOptions, PresetsAreThoseOfThePaper) {
  const McnbOptions algorithm = parse_mcnb_options({{"preset", "algorithm"}});
  EXPECT_EQ(algorithm.feedback, Feedback::kCluster);
  EXPECT_EQ(algorithm.training, TrainingMode::kOnline);
  EXPECT_EQ(algorithm.meta_draw, MetaDraw::kOne);
  EXPECT_EQ(algorithm.meta_steps, 1U);
  EXPECT_EQ(algorithm.meta_samples, 0U);
  EXPECT_EQ(algorithm.exploration, 1.0);
  EXPECT_EQ(algorithm.nu, 5.0);
  EXPECT_EQ(algorithm.gamma, 0.4);
  EXPECT_EQ(algorithm.s, 1.0);
  EXPECT_EQ(algorithm.delta, 0.1);
  EXPECT_EQ(algorithm.eta_1, 0.05);
  EXPECT_EQ(algorithm.eta_2, 0.05);
  EXPECT_EQ(algorithm.network.width, 100U);
  EXPECT_EQ(algorithm.network.depth, 2U);
  EXPECT_FALSE(algorithm.network.biases);
  EXPECT_EQ(algorithm.network.initialisation, Initialisation::kPaper);
  EXPECT_EQ(algorithm.history_limit, 0U);

  const McnbOptions experiments = parse_mcnb_options({{"preset", "experiments"}});
  EXPECT_EQ(experiments.feedback, Feedback::kServed);
  EXPECT_EQ(experiments.training, TrainingMode::kReplay);
  EXPECT_EQ(experiments.replay.train_every, 10U);
  EXPECT_EQ(experiments.replay.train_often_until, 1000U);
  EXPECT_EQ(experiments.replay.train_every_later, 100U);
  EXPECT_EQ(experiments.user_steps, 500U);
  EXPECT_EQ(experiments.theta_steps, 1000U);
  EXPECT_EQ(experiments.replay.optimiser, Optimiser::kAdam);
  EXPECT_EQ(experiments.replay.learning_rate, 1e-3);
  EXPECT_EQ(experiments.replay.stop_loss, 1e-3);
  EXPECT_EQ(experiments.meta_steps, 5U);
  EXPECT_EQ(experiments.meta_samples, 20U);
  EXPECT_EQ(experiments.eta_2, 0.01);
}

TEST(McnbOptions, OptionsGoOverThePreset) {
  const McnbOptions options = parse_mcnb_options(
      {{"preset", "experiments"}, {"eta_2", "0.5"}, {"S", "3"}, {"meta_draw", "all"}});
  EXPECT_EQ(options.eta_2, 0.5);
  EXPECT_EQ(options.s, 3.0);
  EXPECT_EQ(options.meta_draw, MetaDraw::kAll);
  EXPECT_EQ(options.meta_steps, 5U);
}

TEST(McnbOptions, HelpTellsOfEveryOption) {
  std::set<std::string> names;
  for (const OptionHelp& option : mcnb_option_help()) {
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option.expected.empty()) << option.name;
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    parse_mcnb_options({{option.name, option.standard}});  // the default can be set
  }
  for (const char* name :
       {"preset", "gamma", "nu", "S", "delta", "eta_1", "eta_2", "exploration", "nonnegative",
        "width", "depth", "meta_samples", "meta_steps", "meta_draw", "feedback", "training",
        "history_limit", "keep_arms", "pre_clusters"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace mcnb::mcnb_options_test
