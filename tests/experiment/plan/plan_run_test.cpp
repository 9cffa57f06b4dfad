#include "mcnb/experiment/plan/plan_run.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/environment/data_source.h"
#include "mcnb/experiment/plan/rank_memory.h"
#include "mcnb/experiment/report/html_page.h"
#include "mcnb/experiment/report/section.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "tests/experiment/plan/plan_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::plan_run_test {
namespace {

using plan_cases::kSmall;
using plan_cases::plan_from;

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
  Plan plan =
      plan_from(folder,
                "environments = [\"synthetic:users=8:items=0:arms=4\"]\nrounds = 60\nseeds = 1\n"
                "policies = [\"mcnb:width=8:training=replay:optimiser=sgd\", \"random\"]\n"
                "[tune]\nrounds = 60\nseeds = 1\n"
                "[[tune.grid]]\npolicies = [\"mcnb\"]\nlearning_rate = [1000, 0.05]\n");
  const CellStore store(folder / "cells.sqlite", "a");
  const Ran ran = run(plan, store, {.tune = true});
  ASSERT_EQ(ran.results.failures.size(), 1U);
  EXPECT_NE(ran.results.failures[0].why.find("learning_rate"), std::string::npos);
  ASSERT_EQ(ran.results.chosen.size(), 1U);
  EXPECT_NE(ran.results.chosen[0].chosen.find("learning_rate=0.05"), std::string::npos);
  EXPECT_EQ(ran.results.missing, 0U);
  // A report also knows which point of the grid failed.
  const Ran report = run(plan, store, {.cells = {.stored_only = true}, .tune = true});
  EXPECT_EQ(report.results.missing, 0U);
  EXPECT_EQ(report.results.chosen.size(), 1U);
  EXPECT_EQ(report.results.failed, 0U);
  // A study lacks the failed policy and has the others.
  plan.policies = {"mcnb:width=8:training=replay:optimiser=sgd:learning_rate=1000", "random"};
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
  const std::string diverging = "mcnb:width=8:training=replay:optimiser=sgd:learning_rate=1000";
  const Plan plan = plan_from(
      folder,
      "environments = [\"synthetic:users=8:items=0:arms=4\", \"synthetic:users=9:items=0\"]\n"
      "rounds = 60\nseeds = 1\npolicies = [\"" +
          diverging +
          "\", \"neuucb-one:width=8\"]\n"
          "matched_to = \"" +
          diverging + "\"\n");
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
                "policies = [\"random\", \"mcnb:width=8:training=replay:optimiser=sgd\"]\n"
                "[tune]\nrounds = 60\nseeds = 1\n[[tune.grid]]\npolicies = "
                "[\"mcnb\"]\nlearning_rate = [900, 1000]\n");
  const Ran ran = run(plan, CellStore(folder / "cells.sqlite", "a"), {.tune = true});
  EXPECT_EQ(ran.results.failures.size(), 2U);
  EXPECT_TRUE(ran.results.chosen.empty());
  EXPECT_EQ(ran.results.studies[0].results.size(), 2U) << "both, as the plan has them";
}

TEST(PlanRun, RankAgreementIsKept) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(
      folder,
      "figure = \"axis\"\norder_of_arms = true\nenvironments = [\"synthetic:users=8:arms=4\"]\n"
      "rounds = 60\nseeds = 1\npolicies = [\"mcnb:width=8:meta_steps=1\"]\n"
      "[axis]\noption = \"policy.exploration\"\nvalues = [0, 50]\n");
  const CellStore store(folder / "cells.sqlite", "a");
  const Ran none = run(plan, store, {.cells = {.stored_only = true}});
  EXPECT_TRUE(none.results.rank_agreement.empty()) << "a report plays nothing";
  const Ran first = run(plan, store);
  ASSERT_EQ(first.results.rank_agreement.size(), 2U);
  EXPECT_EQ(first.results.rank_agreement[0].correlation, 1.0);
  EXPECT_LT(first.results.rank_agreement[1].correlation, 1.0);
  const Ran report = run(plan, CellStore(store.name(), "b"), {.cells = {.stored_only = true}});
  ASSERT_EQ(report.results.rank_agreement.size(), 2U);
  EXPECT_EQ(report.results.rank_agreement[1].correlation,
            first.results.rank_agreement[1].correlation);
  EXPECT_EQ(report.results.rank_agreement[1].same_choice,
            first.results.rank_agreement[1].same_choice);
  EXPECT_EQ(report.results.rank_agreement[1].value, "50");
  // If a policy fails, ranks are not compared, and the rest is shown.
  Plan failing = plan;
  failing.axis = Axis{false, "learning_rate", {"1000", "0.01"}};
  failing.policies = {"mcnb:width=8:training=replay:optimiser=sgd"};
  const Ran failed = run(failing, store);
  EXPECT_EQ(failed.results.failed, 1U);
  EXPECT_TRUE(failed.results.rank_agreement.empty());
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
  const auto data = std::make_shared<DataSource>(DataSettings{});
  const CellStore store(folder / "cells.sqlite", "a");
  const PlanResults results = run(plan, store, {}, data).results;
  EXPECT_EQ(results.studies.size(), 2U);
  ASSERT_EQ(results.left_out.size(), 1U);
  EXPECT_NE(results.left_out[0].find("users = 5000 is left out"), std::string::npos);
}

// NeuA+U needs features of users, and classification data has none.
TEST(PlanRun, APolicyThatCannotTakeAnEnvironmentStopsNothing) {
  const TemporaryFolder folder;
  put_file(folder / "samples.csv", "1,2,a\n2,1,b\n1,3,a\n3,1,b\n");
  const Plan plan =
      plan_from(folder, "environments = [\"samples:file=" + (folder / "samples.csv").string() +
                            "\"]\nrounds = 20\nseeds = 2\npolicies = [\"neuau\", \"random\"]\n");
  const auto data = std::make_shared<DataSource>(DataSettings{});
  const CellStore store(folder / "cells.sqlite", "a");
  const PlanResults results = run(plan, store, {}, data).results;
  EXPECT_EQ(results.failed, 2U);
  ASSERT_EQ(results.failures.size(), 2U);
  EXPECT_EQ(results.failures[0].cell.policy.label, "neuau");
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

TEST(RankMemory, FindsWhatItKeptAndTextsFromBeforeTheJsonFormat) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(folder, kSmall);
  const Experiment experiment = studies_of(plan, nullptr)[0].experiment;
  const std::vector<PolicySpec> policies = parse_policies("linucb:alpha=0,linucb:alpha=9");
  const CellStore store(folder / "cells.sqlite", "program");
  const RankMemory memory(store, experiment, policies);
  EXPECT_TRUE(memory.find(true).empty());
  memory.keep({{"0", 1.0, 1.0}, {"a value", 1.0 / 3.0, 0.1}});
  for (const bool of_any_program : {false, true}) {
    const std::vector<RankAgreement> found = memory.find(of_any_program);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[1].value, "a value");
    EXPECT_EQ(found[1].correlation, 1.0 / 3.0);
    EXPECT_EQ(found[1].same_choice, 0.1);
  }
  const CellStore other(store.name(), "another program");
  EXPECT_TRUE(RankMemory(other, experiment, policies).find(false).empty());
  EXPECT_EQ(RankMemory(other, experiment, policies).find(true).size(), 2U);

  const CellStore old(folder / "old.sqlite", "program");
  const std::string name = store.kept_texts().begin()->first;
  old.keep_text("order " + name.substr(std::string("ranks ").size()),
                "an old program\n1 1 0\n0.25 0.5 9\n");
  EXPECT_TRUE(RankMemory(old, experiment, policies).find(false).empty());
  const std::vector<RankAgreement> found = RankMemory(old, experiment, policies).find(true);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].value, "9");
  EXPECT_EQ(found[1].correlation, 0.25);
}

TEST(RankAgreement, DoesNotChangeWithTheNormBoundWhereAllArmsAreOneUsers) {
  const TemporaryFolder folder;
  const Plan plan = plan_from(folder, kSmall);
  const RunControl control;
  const std::vector<RankAgreement> agreement =
      compare_ranks(studies_of(plan, nullptr)[0].experiment,
                    parse_policies("mcnb:width=8:meta_steps=1:S=1,mcnb:width=8:meta_steps=1:S=100"),
                    {"1", "100"}, 10, control);
  ASSERT_EQ(agreement.size(), 2U);
  EXPECT_NEAR(agreement[1].correlation, 1.0, 1e-9);
  EXPECT_NEAR(agreement[1].same_choice, 1.0, 1e-9);
  const std::vector<RankAgreement> explored =
      compare_ranks(studies_of(plan, nullptr)[0].experiment,
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
  EXPECT_NE(page.find("id=\"gnuplot_plot_"), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos) << "the page needs nothing else";
  EXPECT_NE(page.find("<th>policy</th><th class=\"number short\">regret</th>"), std::string::npos);

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
}  // namespace mcnb::plan_run_test
