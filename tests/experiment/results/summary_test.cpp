#include "mcnb/experiment/results/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mcnb/experiment/plot/curve_plot.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "tests/temporary_folder.h"

namespace mcnb::summary_test {
namespace {

Experiment two_policies() {
  return {.environment = {"synthetic", {}},
          .policies = parse_policies("linucb,random"),
          .options = {.rounds = 40, .seeds = 3, .first_seed = 1, .threads = 1}};
}

// Made-up results with round numbers.
std::vector<CellResult> made_up() {
  std::vector<CellResult> results;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const char* policy : {"linucb", "random"}) {
      const auto number = static_cast<double>(seed);
      const double regret = number * 10 + (policy[0] == 'r' ? 5 * (number + 1) : 0);
      CellResult result{.policy = policy, .seed = seed, .rounds = 40};
      result.curve = {{20, regret / 2}, {40, regret}};
      result.regret = regret;
      result.seconds = 2.0;
      if (policy[0] == 'l') {
        for (std::uint64_t i = 1; i <= 20; ++i) {
          const double value = i > 18 ? 0.5 : 0.25;
          result.quality.push_back({2 * i, {value, 1.0, -value}});
        }
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

TEST(Summary, SummariesAreMeansOverSeedsAndPairedComparisons) {
  const std::vector<PolicySummary> summaries = summarise(two_policies(), made_up());
  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(summaries[0].regret, 20.0);
  EXPECT_EQ(summaries[0].deviation, 10.0);
  EXPECT_FALSE(summaries[0].against_first.has_value());
  EXPECT_EQ(summaries[0].rounds_per_second, 20.0);
  // The last tenth of the measurements only.
  EXPECT_EQ(summaries[0].quality->precision, 0.5);
  EXPECT_EQ(summaries[0].quality->recall, 1.0);
  EXPECT_EQ(summaries[0].quality->adjusted_rand, -0.5);
  EXPECT_FALSE(summaries[1].quality.has_value());
  EXPECT_EQ(summaries[1].against_first->difference, 15.0);
  const PairedComparison expected =
      *compare_pairs(std::vector<double>{20, 35, 50}, std::vector<double>{10, 20, 30});
  EXPECT_EQ(summaries[1].against_first->p_value, expected.p_value);
}

TEST(Summary, TablesHaveARowForEveryPolicyAndPoint) {
  const std::vector<PolicySummary> summaries = summarise(two_policies(), made_up());
  const std::string people = summary_for_people(summaries).aligned();
  for (const char* part : {"policy", "regret", "p-value", "linucb", "random", "+15.0", "0.500"}) {
    EXPECT_NE(people.find(part), std::string::npos) << people;
  }
  EXPECT_EQ(summary_for_machines(summaries).row_count(), 2U);
  // Rounds 2, 4, ..., 40 where there is quality, which include 20 and 40.
  const TextTable curves = curves_table(made_up());
  EXPECT_EQ(curves.row_count(), 3U * (20 + 2));
  EXPECT_NE(curves.csv().find("linucb,1,40,10,0.5,1,-0.5\n"), std::string::npos);
  EXPECT_NE(curves.csv().find("linucb,1,38,,0.5,1,-0.5\n"), std::string::npos);
  EXPECT_NE(curves.csv().find("random,2,20,17.5,,,\n"), std::string::npos);
}

TEST(Summary, JsonHoldsOptionsSummariesAndCells) {
  const std::vector<CellResult> results = made_up();
  const nlohmann::json json = nlohmann::json::parse(
      experiment_json(two_policies(), summarise(two_policies(), results), results));
  EXPECT_EQ(json.at("environment_options").at("users"), "500");
  EXPECT_EQ(json.at("policies").at(1).at("name"), "random");
  EXPECT_EQ(json.at("summary").at(1).at("against_first").at("difference"), 15.0);
  ASSERT_EQ(json.at("cells").size(), 6U);
  EXPECT_EQ(result_to_json(result_from_json(json.at("cells").at(2).dump())),
            result_to_json(results[2]));
}

TEST(Plot, DrawsAPngAndAnSvg) {
  const TemporaryFolder folder;
  Experiment experiment = two_policies();
  std::vector<CellResult> results = made_up();
  // Names that gnuplot could misunderstand.
  experiment.policies[0].label = "lin'ucb_{2}:a=\"b\\n";
  for (CellResult& result : results) {
    result.policy = result.policy == "linucb" ? experiment.policies[0].label : result.policy;
  }
  const PlotFiles files = draw_regrets(folder.path(), experiment, results);
  EXPECT_TRUE(file_contents(files.png).starts_with("\x89PNG"));
  const std::string svg = file_contents(files.svg);
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  EXPECT_NE(svg.find("lin'ucb_{2}:a="), std::string::npos);
  EXPECT_NE(svg.find("adjusted Rand index"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "plot.log"));
}

TEST(Plot, DrawsOneSeedWithoutClustersToo) {
  const TemporaryFolder folder;
  Experiment experiment = two_policies();
  experiment.options.seeds = 1;
  experiment.policies.erase(experiment.policies.begin());
  std::vector<CellResult> results = made_up();
  std::erase_if(results, [](const CellResult& r) { return r.policy != "random" || r.seed > 1; });
  const std::string svg = file_contents(draw_regrets(folder.path(), experiment, results).svg);
  EXPECT_NE(svg.find("random"), std::string::npos);
  EXPECT_EQ(svg.find("adjusted Rand index"), std::string::npos);
}

}  // namespace
}  // namespace mcnb::summary_test
