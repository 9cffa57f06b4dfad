#include "mcnb/experiment/plan/plan.h"

#include <gtest/gtest.h>

#include "mcnb/base/error.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "tests/experiment/plan/plan_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::plan_test {
namespace {

using plan_cases::kSmall;
using plan_cases::plan_from;

std::string refusal(const TemporaryFolder& folder, const std::string& text) {
  try {
    const Plan plan = plan_from(folder, text);
    studies_of(plan, nullptr);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Plan, AllThatCameWithTheProgramCanBeRead) {
  const std::vector<std::filesystem::path> folders{std::filesystem::path(MCNB_SOURCE_DIR) /
                                                   "experiments"};
  const std::vector<std::string> names = plan_names(folders);
  EXPECT_GE(names.size(), 9U);
  for (const std::string& name : names) {
    const Plan plan = read_plan(find_plan(name, folders));
    EXPECT_EQ(plan.name, name);
    EXPECT_FALSE(plan.title.empty()) << name;
    const std::vector<Study> studies = studies_of(plan, nullptr);
    EXPECT_FALSE(studies.empty()) << name;
    for (const Grid& grid : plan.tuning.grids) {
      for (const std::string& policy : grid.policies) {
        EXPECT_EQ(grid_of(plan.tuning, parse_policy(policy)).size(), 12U) << name << ": " << policy;
      }
    }
  }
  EXPECT_THROW(find_plan("fig-nothing", folders), Error);
}

TEST(Plan, SettingsReachTheEnvironmentsThatKnowThem) {
  const TemporaryFolder folder;
  const std::vector<Study> studies = studies_of(plan_from(folder, kSmall), nullptr);
  ASSERT_EQ(studies.size(), 1U);
  const OptionValues options = all_options(studies[0].experiment.environment);
  EXPECT_EQ(options.at("users"), "8");
  EXPECT_EQ(options.at("arms"), "4");
  EXPECT_EQ(studies[0].experiment.policies.size(), 2U);
  EXPECT_EQ(studies[0].experiment.options.rounds, 100U);
}

TEST(Plan, ASettingThatNoEnvironmentKnowsIsRefused) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(folder, kSmall);
  EXPECT_NO_THROW(check_settings({{"noise", "none"}}, {plan}));
  EXPECT_THROW(check_settings({{"protocol", "text"}}, {plan}), Error);
  Plan other = plan;
  other.environments = {"movielens"};
  EXPECT_NO_THROW(check_settings({{"protocol", "text"}}, {plan, other}));
  EXPECT_NE(refusal(folder, std::string(kSmall) + "usres = 50\n").find("option usres"),
            std::string::npos);
}

TEST(Plan, AnAxisMultipliesEnvironmentsOrPolicies) {
  const TemporaryFolder folder;
  const std::string axis = std::string("figure = \"axis\"\n") + kSmall;
  const std::vector<Study> users = studies_of(
      plan_from(folder, axis + "[axis]\noption = \"environment.users\"\nvalues = [5, 9]\n"),
      nullptr);
  ASSERT_EQ(users.size(), 2U);
  EXPECT_EQ(users[1].at, "9");
  EXPECT_EQ(users[1].experiment.environment.options.at("users"), "9");
  const std::string lines =
      "[axis]\noption = \"policy.alpha\"\nvalues = [0.1, 1]\n"
      "[lines]\noption = \"policy.lambda\"\nvalues = [1, 2, 3]\n";
  EXPECT_NE(refusal(folder, axis + lines).find("random: option alpha"), std::string::npos);
  const std::vector<Study> alphas =
      studies_of(plan_from(folder,
                           "figure = \"axis\"\nenvironments = [\"synthetic\"]\n"
                           "policies = [\"linucb\"]\n" +
                               lines),
                 nullptr);
  ASSERT_EQ(alphas.size(), 1U);
  ASSERT_EQ(alphas[0].experiment.policies.size(), 6U);
  EXPECT_EQ(alphas[0].experiment.policies[5].label, "linucb:alpha=1:lambda=3");
}

TEST(Plan, AReplacementKeepsTheOptionsOfWhatItReplaces) {
  const TemporaryFolder folder;
  Plan plan = plan_from(folder,
                        "environments = [\"synthetic\"]\npolicies = [\"mcnb\", \"random\"]\n"
                        "[[replace]]\nenvironments = [\"synthetic\"]\npolicy = \"mcnb\"\n"
                        "by = \"mcnb:preset=experiments:S=3\"\n");
  plan.policies.emplace_back("mcnb:S=7");
  const std::vector<PolicySpec> policies = studies_of(plan, nullptr)[0].experiment.policies;
  EXPECT_EQ(policies[0].label, "mcnb");
  EXPECT_EQ(policies[0].options, (OptionValues{{"preset", "experiments"}, {"S", "3"}}));
  EXPECT_EQ(policies[1].options, OptionValues());
  EXPECT_EQ(policies[2].label, "mcnb:S=7");
  EXPECT_EQ(policies[2].options, (OptionValues{{"preset", "experiments"}, {"S", "7"}}));
}

TEST(Plan, APolicyReplacedByNothingDoesNotPlayThere) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(folder,
                              "environments = [\"synthetic\", \"movielens\"]\n"
                              "policies = [\"mcnb\", \"linucb\", \"linucb:alpha=1\"]\n"
                              "[[replace]]\nenvironments = [\"synthetic\"]\n"
                              "policy = \"linucb\"\nby = \"\"\n");
  const std::vector<Study> studies = studies_of(plan, nullptr);
  ASSERT_EQ(studies[0].experiment.policies.size(), 1U);
  EXPECT_EQ(studies[0].experiment.policies[0].label, "mcnb");
  EXPECT_EQ(studies[1].experiment.policies.size(), 3U);
}

TEST(Plan, GridsGiveAllCombinationsButKeepWhatIsSaid) {
  const TuningPlan tuning{
      .grids = {
          {{"linucb"}, {{false, "alpha", {"0.1", "1"}}, {false, "lambda", {"1", "2", "3"}}}}}};
  EXPECT_EQ(grid_of(tuning, parse_policy("linucb")).size(), 6U);
  EXPECT_EQ(grid_of(tuning, parse_policy("linucb:alpha=5")).size(), 3U);
  EXPECT_TRUE(grid_of(tuning, parse_policy("random")).empty());
}

// The text of a file, and a part of the error that it must give.
using Refused = std::vector<std::pair<std::string, std::string>>;

void expect_refused(const Refused& cases) {
  const TemporaryFolder folder;
  for (const auto& [text, part] : cases) {
    EXPECT_NE(refusal(folder, text).find(part), std::string::npos)
        << text << " -> " << refusal(folder, text);
  }
}

TEST(Plan, BadFieldsAreRefusedWithTheirLine) {
  expect_refused({
      {"title = [", "line 1"},
      {"titel = \"x\"\n", "one of the fields"},
      {"title = \"x\"\n", "environments, policies"},
      {std::string(kSmall) + "[tune]\nround = 5\n", "rounds, seeds, first_seed"},
      {std::string(kSmall) + "[axis]\noption = \"users\"\nvalues = [1]\n", "environment.NAME"},
      {std::string("rounds = 0\n") + "environments = [\"synthetic\"]\npolicies = [\"random\"]\n",
       "rounds"},
      {"environments = [\"nowhere\"]\npolicies = [\"random\"]\n", "line 1: environments: "},
      {"environments = [\"synthetic\"]\npolicies = [\"linucb:alpha=-1\"]\n", "line 2: policies: "},
      {"environments = [\"synthetic:users\"]\npolicies = [\"random\"]\n", "option=value"},
      {"environments = [\"synthetic\"]\npolicies = [\"nobody\"]\n", "nobody"},
      {"figure = \"pie\"\nenvironments = [\"synthetic\"]\npolicies = [\"random\"]\n", "curves |"},
      {"figure = \"axis\"\nenvironments = [\"synthetic\"]\npolicies = [\"random\"]\n", "[axis]"},
      {"\n\nrounds = \"many\"\n", "plan.toml: line 3"},
  });
  const TemporaryFolder folder;
  EXPECT_THROW(read_plan(folder / "missing.toml"), Error);
}

TEST(Plan, FieldsThatDoNotFitTogetherAreRefusedWithTheirLine) {
  const std::string small = kSmall;
  const std::string axis = "[axis]\noption = \"policy.alpha\"\nvalues = [1, 2]\n";
  const std::string linucb = "figure = \"axis\"\nenvironments = [\"synthetic\"]\n";
  const std::string grid = "[[tune.grid]]\npolicies = [\"linucb\"]\nalpha = [1, 2]\n";
  expect_refused({
      {"matched_to = \"mcnb\"\n" + small, "line 1: matched_to"},
      {small + "[[replace]]\nenvironments = [\"nowhere\"]\npolicy = \"linucb\"\nby = \"random\"\n",
       "nowhere"},
      {small + "[[replace]]\nenvironments = [\"mnist\"]\npolicy = \"mcnb\"\nby = \"random\"\n",
       "not mcnb"},
      {small + "[[replace]]\nenvironments = [\"mnist\"]\npolicy = \"linucb\"\n",
       "by (\"\": nothing)"},
      {small + "[[replace]]\nenvironments = [\"mnist\"]\npolicy = \"linucb\"\nby = \"\"\n",
       "others are compared with"},
      {small + "[[replace]]\nenvironments = [\"synthetic:users=9\"]\npolicy = \"linucb\"\n"
               "by = \"random\"\n",
       "names without options"},
      {small + "[tune]\n" + grid + grid, "one grid for linucb"},
      {small + "[[tune.grid]]\npolicies = [\"linucbb\"]\nalpha = [1, 2]\n", "linucbb"},
      {small + "[[tune.grid]]\npolicies = [\"linucb\"]\nalhpa = [1, 2]\n", "alhpa"},
      {"order_of_arms = true\n" + small, "line 1: order_of_arms"},
      {"references = [\"sqrt\"]\n" + small, "line 1: references"},
      {linucb + "policies = [\"linucb:alpha=1\"]\n" + axis, "without alpha"},
      {linucb + "policies = [\"linucb\"]\n" + axis +
           "[lines]\noption = \"environment.users\"\nvalues = [5, 6]\n",
       "policy.NAME"},
      {"environments = [\"synthetic\", \"synthetic\"]\npolicies = [\"random\"]\n", "once"},
      {linucb + "policies = [\"linucb\"]\n[axis]\noption = \"policy.alhpa\"\nvalues = [1]\n",
       "line 4: axis: "},
      {linucb + "policies = [\"linucb\"]\n[axis]\noption = \"environment.uesrs\"\nvalues = [1]\n",
       "line 4: axis: "},
      {linucb + "policies = [\"linucb\"]\n[axis]\noption = \"policy.alpha\"\nvalues = [1, 1]\n",
       "values: expected every entry once"},
      {small + "gap = nan\n", "line 10: environment: "},
      {small + "gap = 0.1\nuser = 5\n", "line 11: environment: "},
      {small + "[tune]\nfirst_seed = 1\n" + grid, "line 10: first_seed"},
      {linucb + "policies = [\"linucb\"]\n" +
           "[axis]\noption = \"policy.alpha\"\nvalues = [0, 1]\nlog = true\n",
       "line 4: values: expected numbers above zero"},
      {"environments = [\"synthetic:users=9\", \"synthetic:users=9:arms=10\"]\n"
       "policies = [\"random\"]\n",
       "line 1: environments: expected every entry once"},
  });
}

}  // namespace
}  // namespace mcnb::plan_test
