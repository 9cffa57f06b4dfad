#include "mcnb/experiment/results/results_csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"
#include "mcnb/experiment/results/plain_labels.h"
#include "tests/temporary_folder.h"

namespace mcnb::results_csv_test {
namespace {

constexpr const char* kHeader =
    "plan,environment,settings,policy,rounds,seeds,mean,deviation,difference,low,high,p,extra\n";

std::vector<ResultRow> rows_of(const std::string& text) {
  const TemporaryFolder folder;
  put_file(folder / "results.csv", text);
  return read_results_csv(folder / "results.csv");
}

std::string complaint_about(const std::string& text) {
  try {
    rows_of(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "none";
}

TEST(ResultsCsv, TablesShowEveryPolicyAndTheOverviewTheBestOther) {
  const std::string markdown = results_markdown(
      rows_of(std::string(kHeader) + "fig-a,yelp,svd=all:users=5,mcnb,100,3,10,1.5,,,,,x\n" +
              "fig-a,yelp,svd=all:users=5,linucb,100,3,20,2,10,-1,21,0.06,x\n" +
              "fig-a,yelp,svd=all:users=5,oracle,100,3,0,0,-10,-12,-8,0.00001,x\n" +
              "fig-a,yelp,svd=all:users=5,\"club:alpha=1\",100,3,15.25,2,5.25,,,,x\n" +
              "fig-b,mnist,,mcnb,50,1,7,,,,,,x\n"));
  EXPECT_EQ(
      markdown,
      "## Overview\n\n"
      "| plan | environment | settings | seeds | first policy | its regret | best other | its "
      "regret | difference [95 %] | p | Holm's p | gain |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n"
      "| fig-a | yelp | svd=all users=5 | 3 | mcnb | 10 ± 2 | club:alpha=1 | 15 ± 2 | +5.2 "
      "[-] | - | - | +34.4 % |\n\n"
      "## fig-a: yelp, svd=all users=5\n\n100 rounds, 3 seeds.\n\n"
      "| policy | regret | deviation | difference [95 %] | p | Holm's p |\n"
      "|---|---|---|---|---|---|\n"
      "| mcnb | 10.0 | 1.5 | - | - | - |\n"
      "| linucb | 20.0 | 2.0 | +10.0 [-1.0, +21.0] | 0.0600 | 0.0600 |\n"
      "| oracle | 0.0 | 0.0 | -10.0 [-12.0, -8.0] | < 0.0001 | < 0.0001 |\n"
      "| club:alpha=1 | 15.2 | 2.0 | +5.2 [-] | - | - |\n\n"
      "## fig-b: mnist\n\n50 rounds, 1 seed.\n\n"
      "| policy | regret | deviation | difference [95 %] | p | Holm's p |\n"
      "|---|---|---|---|---|---|\n"
      "| mcnb | 7.0 | - | - | - | - |\n\n");
}

// Three policies are compared with the first of fig-a, so the least p-value counts three times.
TEST(ResultsCsv, HolmsValuesCountTheRowsOfTheirTableWithoutTheOracle) {
  const std::vector<ResultRow> rows =
      rows_of(std::string(kHeader) + "fig-a,yelp,,mcnb,100,3,10,1.5,,,,,x\n" +
              "fig-a,yelp,,linucb,100,3,20,2,10,1,21,0.02,x\n" +
              "fig-b,yelp,,mcnb,100,3,10,1.5,,,,,x\n" +
              "fig-b,yelp,,linucb,100,3,20,2,10,1,21,0.02,x\n" +
              "fig-a,yelp,,club,100,3,20,2,10,1,21,0.03,x\n" +
              "fig-a,yelp,,oracle,100,3,0,0,-10,-12,-8,0.00001,x\n" +
              "fig-a,yelp,,locb,100,3,20,2,10,1,21,0.01,x\n");
  std::vector<double> found;
  for (const ResultRow& row : rows) {
    found.push_back(row.difference ? row.difference->judged->holm_p : 0.0);
  }
  EXPECT_EQ(found, (std::vector<double>{0.0, 0.04, 0.0, 0.02, 0.04, 0.00001, 0.03}));
}

TEST(ResultsCsv, WhatIsWrittenIsReadAgain) {
  const ResultRow first{.plan = "fig-a",
                        .environment = "yelp",
                        .settings = "a=1:b=2",
                        .policy = "mcnb",
                        .rounds = 100,
                        .seeds = 3,
                        .mean = 1.0 / 3.0};
  ResultRow second = first;
  second.deviation = 0.1;
  second.difference = Difference{2.5, PairedComparison{2.5, -1.0, 6.0, 1e-9, 1e-9}};
  second.seconds = 0.7;
  second.training_steps = 12.5;
  second.adaptation_steps = 0.0;
  second.memory_bytes = 1e9;
  second.as_run = "club:file=a,b";
  const std::string text = results_csv({first, second});
  const std::vector<ResultRow> found = rows_of(text);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(results_csv(found), text);
  EXPECT_EQ(found[0].mean, 1.0 / 3.0);
  EXPECT_FALSE(found[0].seconds.has_value());
  EXPECT_EQ(found[1].as_run, "club:file=a,b");
  EXPECT_EQ(found[1].difference->judged->p_value, 1e-9);
}

TEST(ResultsCsv, ErrorsNameTheLineAndTheColumn) {
  EXPECT_NE(complaint_about("plan,environment\n").find("results.csv:1: expected a column settings"),
            std::string::npos);
  EXPECT_NE(complaint_about(std::string(kHeader) + "a,b,,c,1,1,2,,,,,,\na,b,,c,1,1,many,,,,,,\n")
                .find("results.csv:3: mean: expected a number or nothing, found 'many'"),
            std::string::npos);
  EXPECT_NE(complaint_about(std::string(kHeader) + "a,b,,c,0,1,2,,,,,,\n")
                .find("results.csv:2: rounds: expected a whole number from 1"),
            std::string::npos);
  EXPECT_NE(complaint_about(std::string(kHeader) + "a,b\n").find("results.csv:2:"),
            std::string::npos);
  EXPECT_NE(complaint_about("").find("found nothing"), std::string::npos);
}

TEST(ResultsCsv, TheProjectsOwnFileCanBeRead) {
  const std::vector<ResultRow> rows = read_results_csv(MCNB_SOURCE_DIR "/docs/results.csv");
  EXPECT_GT(rows.size(), 100U);
  EXPECT_TRUE(std::ranges::any_of(rows, [](const ResultRow& row) { return row.policy == "mcnb"; }));
}

TEST(PlainLabels, SayWhatFlagsMean) {
  EXPECT_EQ(plain_label("linucb:users=each"), "LinUCB, one per user");
  EXPECT_EQ(plain_label("linucb:users=hybrid:alpha=0.3"), "LinUCB, hybrid, alpha 0.3");
  EXPECT_EQ(plain_label("kernelucb:history_limit=10"), "KernelUCB, history limit 10");
  EXPECT_EQ(plain_label("mcnb"), "M-CNB");
  for (const char* other : {"", "regret", "p-value", "mcnbx:a=1", "c sqrt(users)"}) {
    EXPECT_EQ(plain_label(other), other);
  }
  // Every policy has a name of its own.
  for (const PolicyHelp& help : policy_help()) {
    const bool same = plain_label(help.name) == help.name;
    EXPECT_EQ(same,
              help.name == "random" || help.name == "hierarchical" || help.name == "epsilon-greedy")
        << help.name;
    EXPECT_EQ(plain_label(help.name + ":a=1"), plain_label(help.name) + ", a 1");
  }
  EXPECT_EQ(latex_text("a_b 95 % ± {x} <0.1"),
            "a\\_b 95 \\% \\ensuremath{\\pm} \\{x\\} \\ensuremath{<}0.1");
}

}  // namespace
}  // namespace mcnb::results_csv_test
