#include "mcnb/experiment/plan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/environment/data_source.h"
#include "mcnb/experiment/experiment_policies.h"
#include "mcnb/experiment/page.h"
#include "mcnb/experiment/plan_run.h"
#include "tests/temporary_folder.h"

namespace mcnb::plan_test {
namespace {

Plan plan_from(const TemporaryFolder& folder, const std::string& text) {
  put_file(folder / "plan.toml", text);
  return read_plan(folder / "plan.toml");
}

constexpr const char* kSmall = R"(
title = "A small one"
environments = ["synthetic:users=8"]
policies = ["linucb", "random"]
rounds = 100
seeds = 2
[environment]
items = 0
arms = 4
)";

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

struct Ran {
  PlanResults results;
  std::size_t kept;
};

Ran run(const Plan& plan, const CellStore& store, PlanRunOptions options = {},
        const std::shared_ptr<DataSource>& data = nullptr) {
  RunControl control;
  ExperimentProgress progress;
  PlanResults results = run_plan(plan, studies_of(plan, data), store, options, control, progress);
  return {std::move(results), progress.cells_kept};
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

TEST(Plan, BadFilesAreRefusedWithTheirLine) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
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
  };
  const std::string small = kSmall;
  const std::string axis = "[axis]\noption = \"policy.alpha\"\nvalues = [1, 2]\n";
  const std::string linucb = "figure = \"axis\"\nenvironments = [\"synthetic\"]\n";
  const std::string breakdown = "figure = \"breakdown\"\n";
  const std::string grid = "[[tune.grid]]\npolicies = [\"linucb\"]\nalpha = [1, 2]\n";
  const std::pair<std::string, std::string> more[] = {
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
      {breakdown + "environments = [\"mnist\"]\npolicies = [\"mcnb:preset=algorithm\"]\n",
       "line 2: environments: "},
      {breakdown + "environments = [\"synthetic\"]\npolicies = [\"linucb\"]\n",
       "line 3: policies: "},
      {breakdown +
           "environments = [\"synthetic\"]\npolicies = [\"mcnb:preset=algorithm\"]\n[axis]\n"
           "option = \"policy.gamma\"\nvalues = [0.1]\n",
       "environment.users with this figure"},
  };
  for (const auto& [text, part] : more) {
    EXPECT_NE(refusal(folder, text).find(part), std::string::npos)
        << text << " -> " << refusal(folder, text);
  }
  for (const auto& [text, part] : cases) {
    EXPECT_NE(refusal(folder, text).find(part), std::string::npos)
        << text << " -> " << refusal(folder, text);
  }
  EXPECT_NE(refusal(folder, "\n\nrounds = \"many\"\n").find("plan.toml: line 3"),
            std::string::npos);
  EXPECT_THROW(read_plan(folder / "missing.toml"), Error);
}

TEST(PlanRun, RunsAllStudiesOnceAndKeepsThem) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  const Plan plan = plan_from(folder, kSmall);
  const Ran first = run(plan, store);
  EXPECT_EQ(first.results.missing, 0U);
  ASSERT_EQ(first.results.studies.size(), 1U);
  EXPECT_EQ(first.results.studies[0].results.size(), 4U);
  EXPECT_EQ(run(plan, store).kept, 4U);
  // A changed option runs only what it must.
  Plan more = plan;
  more.policies.emplace_back("linucb:alpha=0.7");
  EXPECT_EQ(run(more, store).kept, 4U);
  // Nothing is run where only stored results are wanted.
  more.options.seeds = 3;
  const Ran stored = run(more, store, {.cells = {.stored_only = true}});
  EXPECT_EQ(stored.results.missing, 3U);
  EXPECT_FALSE(stored.results.studies[0].complete());
}

TEST(PlanRun, TuningChoosesTheLeastRegretOnSeedsOfItsOwn) {
  const TemporaryFolder folder;
  Plan plan = plan_from(folder, std::string(kSmall) +
                                    "[tune]\nrounds = 60\nseeds = 2\n[[tune.grid]]\n"
                                    "policies = [\"linucb\"]\nalpha = [0.01, 0.3, 5]\n");
  const CellStore store(folder / "cells.sqlite", "a");
  const Ran ran = run(plan, store, {.tune = true});
  ASSERT_EQ(ran.results.chosen.size(), 1U);
  const ChosenOptions& chosen = ran.results.chosen[0];
  EXPECT_EQ(chosen.points, 3U);
  // By hand: every point, every tuning seed.
  double least = INFINITY;
  std::string best;
  for (const char* alpha : {"0.01", "0.3", "5"}) {
    double regret = 0.0;
    for (std::uint64_t i = 0; i < 2; ++i) {
      RunControl control;
      const PolicySpec policy = parse_policy(std::string("linucb:alpha=") + alpha);
      regret += run_cell({studies_of(plan, nullptr)[0].experiment.environment, policy,
                          plan.tuning.first_seed + i, 60},
                         control)
                    ->regret /
                2.0;
    }
    if (regret < least) {
      least = regret;
      best = std::string("linucb:alpha=") + alpha;
    }
  }
  EXPECT_EQ(chosen.chosen, best);
  EXPECT_DOUBLE_EQ(chosen.regret, least);
  const PolicySpec& played = ran.results.studies[0].study.experiment.policies[0];
  EXPECT_EQ(played.label, "linucb");
  EXPECT_EQ("linucb:alpha=" + played.options.at("alpha"), best);
  plan.tuning.first_seed = 2;
  EXPECT_THROW(run(plan, store, {.tune = true}), Error) << "a tuning seed would be reported";
}

TEST(PlanRun, APointThatFailsIsNotChosenAndStopsNothing) {
  const TemporaryFolder folder;
  Plan plan = plan_from(
      folder,
      "environments = [\"synthetic:users=8:items=0:arms=4\"]\nrounds = 60\nseeds = 1\n"
      "policies = [\"mcnb:width=8:meta_steps=10\", \"random\"]\n[tune]\nrounds = 60\nseeds = 1\n"
      "[[tune.grid]]\npolicies = [\"mcnb\"]\neta_2 = [1000, 0.05]\n");
  const CellStore store(folder / "cells.sqlite", "a");
  const Ran ran = run(plan, store, {.tune = true});
  ASSERT_EQ(ran.results.failures.size(), 1U);
  EXPECT_NE(ran.results.failures[0].why.find("eta_2"), std::string::npos);
  ASSERT_EQ(ran.results.chosen.size(), 1U);
  EXPECT_NE(ran.results.chosen[0].chosen.find("eta_2=0.05"), std::string::npos);
  EXPECT_EQ(ran.results.missing, 0U);
  // It is known to a report too.
  const Ran report = run(plan, store, {.cells = {.stored_only = true}, .tune = true});
  EXPECT_EQ(report.results.missing, 0U);
  EXPECT_EQ(report.results.chosen.size(), 1U);
  EXPECT_EQ(report.results.failed, 0U);
  // A study lacks it, and has the others.
  plan.policies = {"mcnb:width=8:meta_steps=10:eta_2=1000", "random"};
  const Ran lacking = run(plan, store);
  EXPECT_EQ(lacking.results.missing, 0U);
  EXPECT_EQ(lacking.results.failed, 1U);
  EXPECT_EQ(lacking.results.failures.size(), 1U);
  EXPECT_EQ(lacking.results.studies[0].results.size(), 1U);
}

TEST(PlanRun, MatchedPoliciesGetTheStepsOfTheOther) {
  const TemporaryFolder folder;
  Plan plan = plan_from(
      folder,
      "environments = [\"synthetic:users=8:items=0:arms=4\"]\nrounds = 120\nseeds = 2\n"
      "policies = [\"mcnb:width=8:meta_steps=2\", "
      "\"epsilon-greedy:width=8:train_every=10:train_often_until=50:train_every_later=20\", "
      "\"linucb\"]\nmatched_to = \"mcnb:width=8:meta_steps=2\"\n");
  const Ran ran = run(plan, CellStore(folder / "cells.sqlite", "a"));
  ASSERT_EQ(ran.results.chosen.size(), 1U);
  double wanted = 0.0;
  double got = 0.0;
  for (const CellResult& result : ran.results.studies[0].results) {
    const auto steps = static_cast<double>(result.steps.training + result.steps.adaptation);
    wanted += result.policy.starts_with("mcnb") ? steps : 0.0;
    got += result.policy.starts_with("epsilon") ? steps : 0.0;
  }
  EXPECT_GT(wanted, 0.0);
  EXPECT_NEAR(got / wanted, 1.0, 0.01);
  plan.matched_to = "nobody";
  EXPECT_THROW(run(plan, CellStore(folder / "cells.sqlite", "a")), Error);
}

// Every neural policy, tuned as it is run.
TEST(PlanRun, MatchedPoliciesAreTunedWithTheStepsTheyGet) {
  const TemporaryFolder folder;
  const std::string short_schedule =
      ":width=8:train_every=10:train_often_until=50:train_every_later=20";
  const char* neural[] = {"epsilon-greedy", "neuucb-one",    "neuucb-ind",
                          "neuralts",       "neural-linear", "neuau"};
  std::string policies = "\"mcnb:width=8:meta_steps=2\", \"neuucb-one:training=online\"";
  for (const char* name : neural) {
    policies += fmt::format(", \"{}{}\"", name, short_schedule);
  }
  const Plan plan = plan_from(
      folder,
      "environments = [\"synthetic:users=8:items=0:arms=4\"]\nrounds = 60\nseeds = 1\n"
      "policies = [" +
          policies +
          "]\nmatched_to = \"mcnb:width=8:meta_steps=2\"\n[tune]\nrounds = 40\nseeds = 1\n"
          "[[tune.grid]]\npolicies = [\"neuucb-one\"]\nstop_loss = [0, 0.001]\n");
  const Ran ran = run(plan, CellStore(folder / "cells.sqlite", "a"), {.tune = true});
  EXPECT_EQ(ran.results.missing, 0U);
  std::size_t matched = 0;
  std::size_t not_matched = 0;
  bool tuned = false;
  for (const ChosenOptions& chosen : ran.results.chosen) {
    not_matched += chosen.chosen.starts_with("not matched") ? 1 : 0;
    matched +=
        chosen.points == 0 && chosen.chosen.find("train_steps=") != std::string::npos ? 1 : 0;
    tuned |= chosen.points == 2 && chosen.chosen.find("train_steps=") != std::string::npos;
  }
  EXPECT_EQ(matched, std::size(neural) - 1) << "the one that is tuned has a row for both";
  EXPECT_EQ(not_matched, 1U);
  EXPECT_TRUE(tuned) << "the grid is tried with the steps that are run";
  double seconds = 0.0;
  for (const CellResult& result : ran.results.studies[0].results) {
    seconds += result.seconds;
  }
  EXPECT_GT(ran.results.seconds, seconds) << "tuning takes time too";
  double wanted = 0.0;
  for (const CellResult& result : ran.results.studies[0].results) {
    const auto steps = static_cast<double>(result.steps.training + result.steps.adaptation);
    wanted = result.policy.starts_with("mcnb") ? steps : wanted;
    if (result.policy.find("train_every") != std::string::npos &&
        !result.policy.starts_with("neuucb-one")) {
      EXPECT_NEAR(steps / wanted, 1.0, 0.03) << result.policy;
    }
  }
}

TEST(PlanRun, WhereTheModelFailsTheOthersAreLeftOutAndTheRestGoesOn) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(
      folder,
      "environments = [\"synthetic:users=8:items=0:arms=4\", \"synthetic:users=9:items=0\"]\n"
      "rounds = 60\nseeds = 1\npolicies = [\"mcnb:width=8:meta_steps=10:eta_2=1000\", "
      "\"neuucb-one:width=8\"]\nmatched_to = \"mcnb:width=8:meta_steps=10:eta_2=1000\"\n");
  const CellStore store(folder / "cells.sqlite", "a");
  for (int call = 0; call < 2; ++call) {
    const Ran ran = run(plan, store);
    EXPECT_EQ(ran.results.missing, 0U) << "nothing that the same command would run";
    EXPECT_EQ(ran.results.failed, 2U);
    EXPECT_EQ(ran.results.failures.size(), 2U);
    ASSERT_EQ(ran.results.studies.size(), 2U);
    for (const StudyResults& study : ran.results.studies) {
      EXPECT_EQ(study.study.experiment.policies.size(), 1U);
      EXPECT_TRUE(study.results.empty());
    }
  }
}

TEST(PlanRun, APolicyWhoseGridFailsStaysAsItIs) {
  const TemporaryFolder folder;
  const Plan plan =
      plan_from(folder,
                "environments = [\"synthetic:users=8:items=0:arms=4\"]\nrounds = 60\nseeds = 1\n"
                "policies = [\"random\", \"mcnb:width=8:meta_steps=10\"]\n[tune]\nrounds = 60\n"
                "seeds = 1\n[[tune.grid]]\npolicies = [\"mcnb\"]\neta_2 = [900, 1000]\n");
  const Ran ran = run(plan, CellStore(folder / "cells.sqlite", "a"), {.tune = true});
  EXPECT_EQ(ran.results.failures.size(), 2U);
  EXPECT_TRUE(ran.results.chosen.empty());
  EXPECT_EQ(ran.results.studies[0].results.size(), 2U) << "both, as the plan has them";
}

TEST(PlanRun, TheOrderOfArmsIsKept) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(
      folder,
      "figure = \"axis\"\norder_of_arms = true\nenvironments = [\"synthetic:users=8:arms=4\"]\n"
      "rounds = 60\nseeds = 1\npolicies = [\"mcnb:width=8:meta_steps=1\"]\n"
      "[axis]\noption = \"policy.exploration\"\nvalues = [0, 50]\n");
  const CellStore store(folder / "cells.sqlite", "a");
  const Ran none = run(plan, store, {.cells = {.stored_only = true}});
  EXPECT_TRUE(none.results.order.empty()) << "a report plays nothing";
  const Ran first = run(plan, store);
  ASSERT_EQ(first.results.order.size(), 2U);
  EXPECT_EQ(first.results.order[0].correlation, 1.0);
  EXPECT_LT(first.results.order[1].correlation, 1.0);
  const Ran report = run(plan, CellStore(store.path(), "b"), {.cells = {.stored_only = true}});
  ASSERT_EQ(report.results.order.size(), 2U);
  EXPECT_EQ(report.results.order[1].correlation, first.results.order[1].correlation);
  EXPECT_EQ(report.results.order[1].same_choice, first.results.order[1].same_choice);
  EXPECT_EQ(report.results.order[1].value, "50");
  // Where a policy fails there is no order, and the rest is shown.
  Plan failing = plan;
  failing.axis = Axis{false, "eta_2", {"1000", "0.1"}};
  failing.policies = {"mcnb:width=8:meta_steps=10"};
  const Ran failed = run(failing, store);
  EXPECT_EQ(failed.results.failed, 1U);
  EXPECT_TRUE(failed.results.order.empty());
}

TEST(PlanRun, AValueThatTheDataCannotHaveIsLeftOut) {
  const TemporaryFolder folder;
  std::string ratings;
  for (int i = 0; i < 200; ++i) {
    ratings += fmt::format("{},{},{}\n", i % 10, i * 7 % 23, i % 2 == 0 ? 5 : 1);
  }
  put_file(folder / "ratings.csv", ratings);
  const Plan plan = plan_from(
      folder,
      "figure = \"axis\"\nenvironments = [\"ratings:file=" + (folder / "ratings.csv").string() +
          "\"]\nrounds = 20\nseeds = 1\npolicies = [\"random\"]\n[axis]\n"
          "option = \"environment.users\"\nvalues = [3, 5, 5000]\n");
  const auto data = std::make_shared<DataSource>(DataSource::Settings{});
  const CellStore store(folder / "cells.sqlite", "a");
  const PlanResults results = run(plan, store, {}, data).results;
  EXPECT_EQ(results.studies.size(), 2U);
  ASSERT_EQ(results.left_out.size(), 1U);
  EXPECT_NE(results.left_out[0].find("users = 5000 is left out"), std::string::npos);
}

// NeuA+U needs to know what users look like, which nobody does of classes.
TEST(PlanRun, APolicyThatCannotTakeAnEnvironmentStopsNothing) {
  const TemporaryFolder folder;
  put_file(folder / "samples.csv", "1,2,a\n2,1,b\n1,3,a\n3,1,b\n");
  const Plan plan =
      plan_from(folder, "environments = [\"samples:file=" + (folder / "samples.csv").string() +
                            "\"]\nrounds = 20\nseeds = 2\npolicies = [\"neuau\", \"random\"]\n");
  const auto data = std::make_shared<DataSource>(DataSource::Settings{});
  const CellStore store(folder / "cells.sqlite", "a");
  const PlanResults results = run(plan, store, {}, data).results;
  EXPECT_EQ(results.failed, 2U);
  ASSERT_EQ(results.failures.size(), 2U);
  EXPECT_NE(results.failures[0].why.find("neuau"), std::string::npos) << results.failures[0].why;
  ASSERT_EQ(results.studies.size(), 1U);
  EXPECT_EQ(results.studies[0].results.size(), 2U);
}

TEST(PlanRun, CountsTrainingsAsTheScheduleDoes) {
  const OptionValues schedule{
      {"train_every", "10"}, {"train_often_until", "1000"}, {"train_every_later", "100"}};
  EXPECT_EQ(trainings_in(10'000, schedule), 190U);
  EXPECT_EQ(trainings_in(500, schedule), 50U);
}

TEST(RankCorrelation, HasItsKnownValues) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 40}), 1.0);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1.0);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 1, 2}, {1, 2, 3}), std::sqrt(0.75));
  EXPECT_DOUBLE_EQ(rank_correlation({1, 1}, {2, 2}), 1.0);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 1}, {2, 3}), 0.0);
}

TEST(OrderOfArms, DoesNotChangeWithTheNormBoundWhereAllArmsAreOneUsers) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(folder, kSmall);
  const RunControl control;
  const std::vector<OrderOfArms> orders = compare_orders(
      studies_of(plan, nullptr)[0].experiment,
      parse_policies("mcnb:width=8:meta_steps=1:S=1,mcnb:width=8:meta_steps=1:S=100"), {"1", "100"},
      10, control);
  ASSERT_EQ(orders.size(), 2U);
  EXPECT_NEAR(orders[1].correlation, 1.0, 1e-9);
  EXPECT_NEAR(orders[1].same_choice, 1.0, 1e-9);
  const std::vector<OrderOfArms> explored =
      compare_orders(studies_of(plan, nullptr)[0].experiment,
                     parse_policies("mcnb:width=8:meta_steps=1:exploration=0,"
                                    "mcnb:width=8:meta_steps=1:exploration=50"),
                     {"0", "50"}, 10, control);
  EXPECT_LT(explored[1].correlation, 1.0);
}

TEST(Section, HasTablesAndPicturesAndNamesWhatIsMissing) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  Plan plan = plan_from(folder, kSmall);
  const Ran ran = run(plan, store);
  const Section section = make_section(folder / "plan", plan, ran.results);
  EXPECT_TRUE(section.notes.empty());
  ASSERT_EQ(section.pictures.size(), 2U);
  EXPECT_FALSE(file_contents(folder / "plan" / (section.pictures[0].name + ".png")).empty());
  ASSERT_EQ(section.tables.size(), 2U);
  EXPECT_EQ(section.tables[0].name, "winners-arms-4-items-0");
  EXPECT_NE(file_contents(folder / "plan" / "winners-arms-4-items-0.csv").find("linucb"),
            std::string::npos);
  EXPECT_NE(file_contents(folder / "plan" / "curves-arms-4-items-0.csv").find("random,1,100,"),
            std::string::npos);

  const std::string page =
      html_page("<results>", {section}, folder.path(), {{"command", "mcnb & more"}});
  EXPECT_NE(page.find("&lt;results&gt;"), std::string::npos);
  EXPECT_NE(page.find("mcnb &amp; more"), std::string::npos);
  EXPECT_NE(page.find("data:image/svg+xml;base64,"), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos) << "the page needs nothing else";
  EXPECT_NE(page.find("<th>policy</th><th class=\"number\">regret</th>"), std::string::npos);

  plan.options.seeds = 5;
  const Ran part = run(plan, store, {.cells = {.stored_only = true}});
  const Section lacking = make_section(folder / "plan", plan, part.results);
  ASSERT_EQ(lacking.notes.size(), 1U);
  EXPECT_NE(lacking.notes[0].find("6 runs are missing"), std::string::npos);
}

TEST(Section, DrawsFinalRegretsAgainstAnAxis) {
  const TemporaryFolder folder;
  const Plan plan =
      plan_from(folder, std::string("figure = \"axis\"\nreferences = [\"sqrt\"]\n") + kSmall +
                            "[axis]\noption = \"environment.users\"\nvalues = [4, 16]\nlog = true\n"
                            "[[published]]\nlabel = \"others\"\nat = [4, 16]\nvalues = [10, 20]\n");
  const Ran ran = run(plan, CellStore(folder / "cells.sqlite", "a"));
  const Section section = make_section(folder / "plan", plan, ran.results);
  EXPECT_TRUE(section.notes.empty());
  ASSERT_EQ(section.pictures.size(), 1U);
  ASSERT_EQ(section.tables.size(), 1U);
  const auto& rows = section.tables[0].for_people.rows();
  ASSERT_EQ(rows.size(), 4U);  // two policies, the root, the published line
  EXPECT_EQ(rows[3], (std::vector<std::string>{"others", "10", "20"}));
  // Four times the users, twice the regret.
  EXPECT_NEAR(std::stod(rows[2][2]), 2.0 * std::stod(rows[2][1]), 1.01);
}

}  // namespace
}  // namespace mcnb::plan_test
