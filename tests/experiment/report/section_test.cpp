#include "mcnb/experiment/report/section.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "mcnb/experiment/plot/curve_plot.h"
#include "mcnb/experiment/results/statistics.h"
#include "mcnb/experiment/results/table_numbers.h"
#include "tests/temporary_folder.h"

namespace mcnb::section_test {
namespace {

Plan small_plan(std::vector<std::string> policies) {
  Plan plan;
  plan.name = "small";
  plan.title = "A small one";
  plan.environments = {"synthetic"};
  plan.policies = std::move(policies);
  plan.options = {.rounds = 100, .seeds = 3, .first_seed = 1, .threads = 1};
  return plan;
}

using Regrets = std::map<std::string, std::vector<double>>;  // by policy, one for each seed
constexpr double kFailed = -1.0;                             // that run left the finite numbers

// Made-up results: a policy takes a thousandth of its regret in seconds.
PlanResults results_of_runs(const Plan& plan, const Regrets& regrets) {
  PlanResults all;
  for (Study& study : studies_of(plan, nullptr)) {
    StudyResults results{.study = study, .results = {}};
    for (std::uint64_t seed = 1; seed <= plan.options.seeds; ++seed) {
      for (const PolicySpec& policy : study.experiment.policies) {
        const double regret = regrets.at(policy.label).at(seed - 1);
        if (regret == kFailed) {
          ++results.missing;
          all.failures.push_back(
              {{study.experiment.environment, policy, seed, plan.options.rounds}, "not finite"});
          continue;
        }
        CellResult result{.policy = policy.label, .seed = seed, .rounds = plan.options.rounds};
        result.curve = {{50, regret / 2}, {plan.options.rounds, regret}};
        result.regret = regret;
        result.seconds = regret / 1000.0;
        results.results.push_back(result);
      }
    }
    all.missing += results.missing;
    all.studies.push_back(std::move(results));
  }
  return all;
}

// The rows of a CSV file without quotes, by their headings.
std::vector<std::map<std::string, std::string>> csv(const std::filesystem::path& path) {
  std::istringstream lines(file_contents(path));
  std::vector<std::string> headings;
  std::vector<std::map<std::string, std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells(1);
    for (const char c : line) {
      c == ',' ? static_cast<void>(cells.emplace_back()) : cells.back().push_back(c);
    }
    if (headings.empty()) {
      headings = cells;
      continue;
    }
    rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      rows.back()[headings.at(i)] = cells[i];
    }
  }
  return rows;
}

const NamedTable& table_of(const Section& section, const std::string& name) {
  const auto found = std::ranges::find(section.tables, name, &NamedTable::name);
  EXPECT_NE(found, section.tables.end()) << name;
  return *found;
}

bool has_table(const Section& section, const std::string& name) {
  return std::ranges::count(section.tables, name, &NamedTable::name) > 0;
}

const Regrets kRegrets{{"mcnb", {10, 20, 30}}, {"linucb", {14, 22, 39}}, {"random", {80, 82, 90}}};

TEST(Section, OnlyThePolicyThatFailedIsLeftOut) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb", "random"});
  Regrets regrets = kRegrets;
  regrets["linucb"][1] = kFailed;
  const Section section = make_section(folder.path(), plan, results_of_runs(plan, regrets));
  ASSERT_EQ(section.notes.size(), 1U);
  EXPECT_EQ(section.notes[0], "synthetic: linucb failed and is left out: seed 2: not finite");
  EXPECT_EQ(section.pictures.size(), 2U);
  const auto& rows = table_of(section, "policies-synthetic").for_people.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0][0], "mcnb");
  EXPECT_EQ(rows[1][0], "random");
  EXPECT_EQ(csv(folder / "winners.csv").at(0).at("other"), "random");
  EXPECT_EQ(file_contents(folder / "curves.csv").find("linucb"), std::string::npos);
  // The other policies keep the colours that they have without a failure.
  EXPECT_NE(file_contents(folder / "regret-synthetic.gp").find("rgb '#B8A800' dashtype solid"),
            std::string::npos);
}

TEST(Section, WithoutTheFirstPolicyNobodyIsHeldAgainstAnother) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb", "random"});
  Regrets regrets = kRegrets;
  regrets["mcnb"] = {kFailed, kFailed, kFailed};
  const Section section = make_section(folder.path(), plan, results_of_runs(plan, regrets));
  ASSERT_EQ(section.notes.size(), 1U);
  EXPECT_EQ(section.notes[0],
            "synthetic: mcnb failed and is left out: seed 1: not finite (and 2 more seeds)");
  EXPECT_EQ(section.pictures.size(), 1U);
  EXPECT_FALSE(has_table(section, "winners"));
  for (const auto& row : csv(folder / "policies-synthetic.csv")) {
    EXPECT_EQ(row.at("difference"), "");
  }
}

TEST(Section, RunsThatMayStillComeAreMissingNotFailed) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb", "random"});
  Regrets regrets = kRegrets;
  regrets["linucb"][1] = kFailed;
  PlanResults results = results_of_runs(plan, regrets);
  results.failures[0].cell.policy.label = "linucb:alpha=7";  // a point of a grid
  const Section section = make_section(folder.path(), plan, results);
  ASSERT_EQ(section.notes.size(), 2U);
  EXPECT_NE(section.notes[0].find("1 run is missing"), std::string::npos);
  EXPECT_NE(section.notes[1].find("failed in tuning"), std::string::npos);
  EXPECT_TRUE(section.pictures.empty());
}

TEST(Section, AFailureIsThatOfItsOwnValueOfTheAxis) {
  const TemporaryFolder folder;
  Plan plan = small_plan({"mcnb", "linucb", "random"});
  plan.figure = Figure::kAxis;
  plan.axis = {.of_environment = true, .option = "users", .values = {"4", "8"}};
  Regrets regrets = kRegrets;
  regrets["linucb"][1] = kFailed;
  PlanResults results = results_of_runs(plan, regrets);
  ASSERT_EQ(results.failures.size(), 2U);
  results.failures.pop_back();  // that run may still come
  const Section section = make_section(folder.path(), plan, results);
  ASSERT_EQ(section.notes.size(), 2U);
  EXPECT_NE(section.notes[0].find("users=4: linucb failed and is left out: seed 2: not finite"),
            std::string::npos)
      << section.notes[0];
  EXPECT_EQ(section.notes[0].find("more seeds"), std::string::npos) << section.notes[0];
  EXPECT_NE(section.notes[1].find("users=8: 1 run is missing"), std::string::npos)
      << section.notes[1];
}

TEST(Section, PublishedNumbersAppearBesideTheSameSettings) {
  const TemporaryFolder folder;
  Plan plan = small_plan({"mcnb", "linucb", "random"});
  plan.published = {{.label = "gain",
                     .at = {"synthetic"},
                     .values = {5.0},
                     .settings = {{"gap", "0.1"}, {"users", "500"}}}};
  const auto gain = [&](const std::string& gap) {
    plan.settings = {{"gap", gap}};
    make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
    return csv(folder / ("winners-gap-" + gap + ".csv")).at(0).at("published_gain_percent");
  };
  EXPECT_EQ(gain("0.1"), "5");
  EXPECT_EQ(gain("0.3"), "");
}

TEST(Section, VariantsOfAnEnvironmentAreNamedAndDoNotOverwriteEachOther) {
  const TemporaryFolder folder;
  Plan plan = small_plan({"mcnb", "linucb", "random"});
  plan.settings = {{"gap", "0.1"}, {"users", "500"}};  // of which the second is the default
  const Section first = make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
  plan.settings["gap"] = "0.3";
  const Section second = make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
  EXPECT_EQ(first.pictures.at(0).name, "regret-synthetic-gap-0.1");
  EXPECT_EQ(second.pictures.at(0).name, "regret-synthetic-gap-0.3");
  EXPECT_TRUE(second.pictures[0].caption.starts_with("synthetic, gap=0.3: 100 rounds"));
  EXPECT_NE(file_contents(folder / "regret-synthetic-gap-0.3.gp").find("synthetic, gap=0.3"),
            std::string::npos);
  for (const char* name : {"winners", "policies-synthetic", "curves"}) {
    for (const char* gap : {"0.1", "0.3"}) {
      const auto rows = csv(folder / (std::string(name) + "-gap-" + gap + ".csv"));
      ASSERT_FALSE(rows.empty()) << name;
      EXPECT_EQ(rows[0].at("environment"), "synthetic");
      EXPECT_EQ(rows[0].at("settings"), std::string("gap=") + gap);
    }
  }
}

TEST(Section, CsvFilesHoldNumbersAndOneSignForDifferences) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb", "random"});
  const Section section = make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
  const auto policies = csv(folder / "policies-synthetic.csv");
  const auto winners = csv(folder / "winners.csv");
  ASSERT_EQ(policies.size(), 3U);
  ASSERT_EQ(winners.size(), 1U);
  const PairedComparison expected = *compare_pairs(kRegrets.at("linucb"), kRegrets.at("mcnb"));
  EXPECT_EQ(policies[1].at("policy"), "linucb");
  EXPECT_EQ(winners[0].at("other"), "linucb");
  for (const auto& row : {policies[1], winners[0]}) {
    EXPECT_EQ(row.at("rounds"), "100");
    EXPECT_EQ(row.at("seeds"), "3");
    EXPECT_DOUBLE_EQ(std::stod(row.at("difference")), 5.0);
    EXPECT_DOUBLE_EQ(std::stod(row.at("low")), expected.low);
    EXPECT_DOUBLE_EQ(std::stod(row.at("high")), expected.high);
    EXPECT_DOUBLE_EQ(std::stod(row.at("p")), expected.p_value);
  }
  EXPECT_DOUBLE_EQ(std::stod(policies[1].at("mean")), 25.0);
  EXPECT_DOUBLE_EQ(std::stod(policies[1].at("deviation")),
                   *standard_deviation(kRegrets.at("linucb")));
  EXPECT_DOUBLE_EQ(std::stod(winners[0].at("gain_percent")), 20.0);
  const NamedTable& shown = table_of(section, "winners");
  EXPECT_TRUE(shown.for_people.rows()[0][4].starts_with("+5.0 [")) << shown.for_people.rows()[0][4];
  EXPECT_NE(shown.caption.find("100 rounds, seeds 1 to 3"), std::string::npos);
  for (const std::string name : {"winners", "policies-synthetic"}) {
    EXPECT_NE(table_of(section, name).caption.find("above zero mcnb has less regret"),
              std::string::npos);
  }
}

TEST(Section, DifferencesThatAreAllEqualAreNotJudged) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb"});
  const Section section =
      make_section(folder.path(), plan,
                   results_of_runs(plan, {{"mcnb", {10, 20, 30}}, {"linucb", {17, 27, 37}}}));
  const auto& row = table_of(section, "winners").for_people.rows().at(0);
  EXPECT_EQ(row[4], "+7.0 [-]");
  EXPECT_EQ(row[5], "-");
  EXPECT_EQ(csv(folder / "winners.csv").at(0).at("difference"), "7");
  EXPECT_EQ(csv(folder / "winners.csv").at(0).at("p"), "");
}

TEST(Section, ThePapersGainStandsBesideItsOwnMethodAndRoundsOnly) {
  const TemporaryFolder folder;
  const auto published = [&](const Plan& plan) {
    make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
    return csv(folder / "winners.csv").at(0).at("published_gain_percent");
  };
  Plan plan = small_plan({"mcnb", "linucb", "random"});
  plan.published = {{.label = "gain", .at = {"synthetic"}, .values = {8.1}, .rounds = 100}};
  EXPECT_EQ(published(plan), "8.1");
  plan.options.rounds = 90;
  EXPECT_EQ(published(plan), "");
  plan.options.rounds = 100;
  plan.policies = {"linucb", "mcnb", "random"};
  EXPECT_EQ(published(plan), "");
}

TEST(Section, RunningTimesAreTrueAndComparedWithThePapers) {
  const TemporaryFolder folder;
  Plan plan = small_plan({"mcnb", "linucb", "random"});
  plan.figure = Figure::kRuntime;
  plan.published = {
      {.label = "mcnb / linucb", .at = {"synthetic"}, .values = {1.6}, .rounds = 100}};
  Regrets regrets = kRegrets;
  regrets["linucb"] = {0.01, 0.02, 0.03};  // a hundredth of a millisecond
  const Section section = make_section(folder.path(), plan, results_of_runs(plan, regrets));
  const auto& row = table_of(section, "times").for_people.rows().at(0);
  EXPECT_EQ(row[1], "mcnb / linucb");
  EXPECT_EQ(row[3], "1000.00");
  EXPECT_EQ(row[4], "1.6");
  ASSERT_EQ(section.pictures.size(), 1U);
  EXPECT_NE(section.pictures[0].caption.find("every run has one thread"), std::string::npos);
  EXPECT_NE(file_contents(folder / "runtime-synthetic.dat").find("2e-05 0.02"), std::string::npos);
  const std::string svg = file_contents(folder / "runtime-synthetic.svg");
  for (const char* policy : {"M-CNB", "LinUCB", "random"}) {
    EXPECT_NE(svg.find(policy), std::string::npos);
  }
  EXPECT_NE(section.pictures[0].caption.find("the time of each run"), std::string::npos);
}

TEST(Section, PartTimesAppearBesideThePublishedOnes) {
  const TemporaryFolder folder;
  Plan plan = small_plan({"mcnb", "random"});
  plan.figure = Figure::kBreakdown;
  plan.axis = {.of_environment = true, .option = "users", .values = {"4", "8"}};
  plan.published = {{.label = "training", .at = {"8"}, .values = {0.5}}};
  PlanResults results = results_of_runs(plan, {{"mcnb", {10, 20, 30}}, {"random", {80, 82, 90}}});
  for (StudyResults& study : results.studies) {
    for (CellResult& result : study.results) {
      if (result.policy == "mcnb") {
        const double share = result.seconds / 10.0;
        result.parts = PartSeconds{share, 2.0 * share, 3.0 * share};
      }
    }
  }
  const Section section = make_section(folder.path(), plan, results);
  const auto& people = table_of(section, "breakdown").for_people.rows();
  ASSERT_EQ(people.size(), 5U);
  // 20 ms of 100 rounds on average, in milliseconds of one round.
  EXPECT_EQ(people[0], (TableRow{"synthetic, users=4", "mcnb", "0.02", "0.04", "0.06", "0.2"}));
  EXPECT_EQ(people[1], (TableRow{"synthetic, users=4", "random", "-", "-", "-", "0.84"}));
  EXPECT_EQ(people[4], (TableRow{"synthetic, users=8", "published", "-", "-", "500", "-"}));
  const auto rows = csv(folder / "breakdown.csv");
  EXPECT_EQ(rows.at(0).at("value"), "4");
  EXPECT_NEAR(std::stod(rows.at(0).at("adaptation_seconds")), 4e-5, 1e-12);
  EXPECT_EQ(rows.at(1).at("clustering_seconds"), "");
  EXPECT_EQ(rows.at(4).at("training_seconds"), "0.5");
  EXPECT_EQ(rows.at(4).at("seeds"), "");
}

TEST(Section, ReferenceCurvesAreFittedToAllPointsOfTheFirstLine) {
  const TemporaryFolder folder;
  Plan plan = small_plan({"mcnb", "linucb"});
  plan.figure = Figure::kAxis;
  plan.axis = Axis{true, "clusters", {"1", "4", "16"}};
  plan.log_axis = true;
  plan.references = {"sqrt", "sqrt-users"};
  PlanResults results = results_of_runs(plan, {{"mcnb", {1, 1, 1}}, {"linucb", {100, 110, 120}}});
  const double regrets[] = {1.0, 50.0, 90.0};
  for (std::size_t i = 0; i < 3; ++i) {
    for (CellResult& result : results.studies.at(i).results) {
      result.regret = result.policy == "mcnb" ? regrets[i] : result.regret;
    }
  }
  const Section section = make_section(folder.path(), plan, results);
  const double factor = (1.0 * 1 + 50.0 * 2 + 90.0 * 4) / (1.0 + 4.0 + 16.0);
  double seen = 0;
  for (const auto& row : csv(folder / "axis-synthetic.csv")) {
    if (row.at("line") == "c sqrt(clusters)") {
      ++seen;
      EXPECT_NEAR(std::stod(row.at("mean")), factor * std::sqrt(std::stod(row.at("value"))), 1e-9);
    } else if (row.at("line") == "c sqrt(users)") {
      ++seen;
      EXPECT_NEAR(std::stod(row.at("mean")), factor * std::sqrt(500.0), 1e-9);
    }
  }
  EXPECT_EQ(seen, 6);
  EXPECT_NE(section.pictures.at(0).caption.find("by least squares"), std::string::npos);
  // The picture ends at the values of the axis, and above what was measured.
  const std::string script = file_contents(folder / "axis-synthetic.gp");
  double low = 0.0;
  double high = 0.0;
  const std::size_t at = script.find("set xrange");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::sscanf(script.c_str() + at, "set xrange [%lf:%lf]", &low, &high), 2);
  EXPECT_GT(low, 0.7);
  EXPECT_LT(low, 1.0);
  EXPECT_GT(high, 16.0);
  EXPECT_LT(high, 22.0);
  EXPECT_NE(script.find("c sqrt(users) (491, above)"), std::string::npos) << script;
}

TEST(Section, APolicyLooksTheSameInAllPictures) {
  const TemporaryFolder folder;
  const std::vector<double> some{1.0, 2.0, 3.0};
  const std::string look = "linecolor rgb '#D55E00'";
  for (const std::vector<std::string>& policies :
       std::vector<std::vector<std::string>>{{"mcnb", "linucb", "neuucb-one"},
                                             {"neuucb-one", "random"},
                                             {"mcnb", "club", "neuucb-one:alpha=0.3", "locb"}}) {
    Plan plan = small_plan(policies);
    Regrets regrets;
    for (const std::string& policy : policies) {
      regrets[policy] = some;
      regrets[policy][0] += static_cast<double>(regrets.size());  // no two are equal
    }
    for (const Figure figure : {Figure::kCurves, Figure::kRuntime}) {
      plan.figure = figure;
      const Section section = make_section(folder.path(), plan, results_of_runs(plan, regrets));
      const std::string script = file_contents(folder / (section.pictures.at(0).name + ".gp"));
      const std::size_t title = script.find("title 'NeuUCB-ONE");
      ASSERT_NE(title, std::string::npos) << script;
      const std::size_t colour = script.rfind("linecolor", title);
      EXPECT_EQ(script.substr(colour, look.size()), look) << policies.size();
    }
  }
}

TEST(Section, EveryPictureIsAlsoPdfAndLatexAndEveryTableBooktabs) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb:users=each", "random"});
  Regrets regrets = kRegrets;
  regrets["linucb:users=each"] = regrets.at("linucb");
  const Section section = make_section(folder.path(), plan, results_of_runs(plan, regrets));
  ASSERT_FALSE(section.pictures.empty());
  for (const NamedPicture& picture : section.pictures) {
    EXPECT_TRUE(file_contents(folder / (picture.name + ".pdf")).starts_with("%PDF"));
    EXPECT_TRUE(file_contents(folder / (picture.name + "-latex.pdf")).starts_with("%PDF"));
    const std::string latex = file_contents(folder / (picture.name + "-latex.tex"));
    EXPECT_NE(latex.find("LinUCB, one per user"), std::string::npos) << picture.name;
    EXPECT_FALSE(file_contents(folder / (picture.name + ".axes")).empty());
  }
  for (const NamedTable& table : section.tables) {
    const std::string latex = file_contents(folder / (table.name + ".tex"));
    EXPECT_NE(latex.find("\\toprule"), std::string::npos);
    EXPECT_NE(latex.find("M-CNB"), std::string::npos) << latex;
    EXPECT_EQ(std::ranges::count(latex, '\n'), std::ssize(table.for_people.rows()) + 7) << latex;
  }
  ASSERT_EQ(section.winners.size(), 1U);
  EXPECT_EQ(section.winners[0].policy, "mcnb");
  EXPECT_EQ(section.winners[0].runner_up, "linucb:users=each");
  EXPECT_NEAR(section.winners[0].against->difference, 5.0, 1e-9);
}

TEST(Section, RandomPlayLeavesTheFrameOfRegretCurves) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb", "random"});
  make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
  const std::string script = file_contents(folder / "regret-synthetic.gp");
  EXPECT_NE(script.find("title 'random (84)'"), std::string::npos) << script;
  double top = 0.0;
  const std::size_t at = script.find("set yrange");
  ASSERT_EQ(std::sscanf(script.c_str() + at, "set yrange [0:%lf]", &top), 1);
  const double worst = 25.0 + *standard_deviation(kRegrets.at("linucb"));
  EXPECT_GT(top, worst);
  EXPECT_LT(top, 1.2 * worst);
  EXPECT_NE(script.find("linewidth 4 linecolor rgb '#0072B2' dashtype solid title 'M-CNB'"),
            std::string::npos);
  EXPECT_NE(script.find("linewidth 2.5 linecolor rgb '#56B4E9' dashtype solid title 'LinUCB'"),
            std::string::npos);
  // If random play is not the worst policy, the frame shows all curves.
  make_section(
      folder.path(), plan,
      results_of_runs(
          plan, {{"mcnb", {10, 20, 30}}, {"linucb", {94, 92, 99}}, {"random", {80, 82, 90}}}));
  const std::string whole = file_contents(folder / "regret-synthetic.gp");
  EXPECT_NE(whole.find("title 'random'"), std::string::npos);
  EXPECT_NE(whole.find("set yrange [0:*]"), std::string::npos);
}

std::string regret_script(const Regrets& regrets) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "club", "cofiba", "locb", "sclub"});
  make_section(folder.path(), plan, results_of_runs(plan, regrets));
  return file_contents(folder / "regret-synthetic.gp");
}

TEST(Section, OneLineFarAboveFourOthersLeavesTheFrame) {
  Regrets regrets{{"mcnb", {10, 20, 30}},
                  {"club", {80, 82, 90}},
                  {"cofiba", {15, 21, 30}},
                  {"locb", {14, 22, 39}},
                  {"sclub", {17, 20, 30}}};
  EXPECT_NE(regret_script(regrets).find("title 'CLUB (84)'"), std::string::npos);
  std::swap(regrets["club"], regrets["mcnb"]);  // the first stays
  EXPECT_NE(regret_script(regrets).find("set yrange [0:*]"), std::string::npos);
  std::swap(regrets["club"], regrets["mcnb"]);
  regrets["locb"] = {70, 80, 90};  // two of five are not a few
  EXPECT_NE(regret_script(regrets).find("set yrange [0:*]"), std::string::npos);
}

TEST(Section, DifferencesToTheFirstPolicyAreDrawnToo) {
  const TemporaryFolder folder;
  const Plan plan = small_plan({"mcnb", "linucb", "random"});
  const Section section = make_section(folder.path(), plan, results_of_runs(plan, kRegrets));
  EXPECT_EQ(std::ranges::count(section.pictures, "difference-synthetic", &NamedPicture::name), 1);
  const std::string script = file_contents(folder / "difference-synthetic.gp");
  EXPECT_NE(script.find("More regret than M-CNB, synthetic (mean over 3 seeds with its 95 %"),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("set yrange [*:"), std::string::npos);
  // 14 - 10, 22 - 20 and 39 - 30 after the last round: 5, and the interval of that mean.
  const std::string data = file_contents(folder / "difference-synthetic.dat");
  const PairedComparison judged = *compare_pairs(kRegrets.at("linucb"), kRegrets.at("mcnb"));
  double round = 0.0;
  double mean = 0.0;
  double low = 0.0;
  double high = 0.0;
  bool found = false;
  std::istringstream lines(data);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    found |= (numbers >> round >> mean >> low >> high) && round == 100.0 && mean == 5.0 &&
             std::abs(low - judged.low) < 1e-9 && std::abs(high - judged.high) < 1e-9;
  }
  EXPECT_TRUE(found) << data;
}

TEST(Section, PoliciesWithEqualCurvesShareALine) {
  Regrets regrets{{"mcnb", {10, 20, 30}},
                  {"club", {14, 22, 39}},
                  {"cofiba", {14, 22, 39}},
                  {"locb", {14, 22, 38}},
                  {"sclub", {14, 22, 39}}};
  const std::string script = regret_script(regrets);
  EXPECT_NE(script.find("title 'CLUB', NaN with lines linewidth 2.5 linecolor rgb '#CC79A7' "
                        "dashtype (10,5) title 'COFIBA = CLUB', NaN"),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("title 'SCLUB = CLUB'"), std::string::npos);
  EXPECT_NE(script.find("title 'LOCB'"), std::string::npos);
  regrets["sclub"] = {39, 22, 14};  // the same mean, not the same runs
  EXPECT_NE(regret_script(regrets).find("title 'SCLUB'"), std::string::npos);
}

}  // namespace
}  // namespace mcnb::section_test
