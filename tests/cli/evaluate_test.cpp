#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "mcnb/logs/log_writer.h"
#include "tests/cli/program.h"
#include "tests/evaluate/log_cases.h"
#include "tests/evaluate/synthetic_log.h"

namespace mcnb::evaluate_test {
namespace {

std::string write_log(const TemporaryFolder& folder) {
  const std::string path = folder / "log.dsjson";
  put_file(path, cases::written(LogFormat::kDsjson, cases::synthetic_log({}, 1, 400)));
  return path;
}

TEST(EvaluateCommand, PrintsEstimatesAndWritesFiles) {
  const TemporaryFolder folder;
  const std::string log = write_log(folder);
  const ProgramOutcome outcome =
      run_program({"evaluate", log, "--policy", "random,action=a1,replay=linucb", "--baseline",
                   "first", "--replicates", "50", "--output", folder / "out"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  for (const char* part : {"effective size", "SWITCH-DR", "action=a1", "replay=linucb", "share"}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
  }
  const auto json = nlohmann::json::parse(file_contents(folder / "out/evaluation.json"));
  EXPECT_EQ(json["log"]["rounds"], 400);
  EXPECT_EQ(json["slots"][0]["policies"].size(), 2U);
  EXPECT_TRUE(file_contents(folder / "out/estimates.csv").starts_with("slot,policy,estimator"));
  EXPECT_FALSE(file_contents(folder / "out/estimates.svg").empty());
  EXPECT_FALSE(file_contents(folder / "out/weight-shares.svg").empty());
  EXPECT_NE(file_contents(folder / "out/weights.tex").find("\\toprule"), std::string::npos);
  // It is a section of the page, which needs no runs.
  const ProgramOutcome report = run_program({"report", "--output", folder.path().string()});
  EXPECT_EQ(report.status, 0) << report.errors;
  const std::string page = file_contents(folder / "report.html");
  EXPECT_NE(page.find("What other policies would have earned: log.dsjson"), std::string::npos);
  EXPECT_NE(page.find("effective size"), std::string::npos);
  EXPECT_NE(page.find("id=\"gnuplot_plot_"), std::string::npos);

  const ProgramOutcome again =
      run_program({"evaluate", log, "--policy", "random,action=a1", "--estimators", "snips,dr",
                   "--format", "json", "--replicates", "50", "--baseline", "first"});
  const auto shorter = nlohmann::json::parse(again.output);
  EXPECT_EQ(shorter["slots"][0]["policies"][1]["estimates"].size(), 2U);
  EXPECT_EQ(shorter["slots"][0]["policies"][1]["estimates"][0]["value"],
            json["slots"][0]["policies"][1]["estimates"][2]["value"]);
}

TEST(EvaluateCommand, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string log = write_log(folder);
  const auto outcome = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"evaluate", log});
    return run_program(more);
  };
  EXPECT_EQ(outcome({}).status, 2);
  put_file(folder / "rows.csv", "probability,policy_probability,reward\n0.5,0.5,1\n0.5,0,0\n");
  const ProgramOutcome table = run_program({"evaluate", folder / "rows.csv"});
  EXPECT_EQ(table.status, 0) << table.errors;
  EXPECT_NE(table.output.find("SNIPS"), std::string::npos);
  EXPECT_EQ(table.output.find("DRos"), std::string::npos);  // it has no model
  EXPECT_EQ(run_program({"evaluate", folder / "rows.csv", "--policy", "random"}).status, 2);
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--policy", "best"}, "policy \"best\": expected random, first, action=ID"},
           {{"--policy", "replay=best"}, "policy \"best\": expected one of"},
           {{"--policy", "random", "--estimators", "x"}, "estimator \"x\": expected one of ips"},
           {{"--policy", "random", "--reward-range", "1", "0"}, "a range of rewards"},
           {{"--policy", "random", "--baseline", "x"}, "policy \"x\""}}) {
    const ProgramOutcome found = outcome(arguments);
    EXPECT_EQ(found.status, 2) << found.errors;
    EXPECT_NE(found.errors.find(words), std::string::npos) << found.errors;
  }
  put_file(folder / "certain.csv", "action,probability,reward\na,1,1\nb,1,0\n");
  const ProgramOutcome certain =
      run_program({"evaluate", folder / "certain.csv", "--policy", "random"});
  EXPECT_EQ(certain.status, 1);
  EXPECT_NE(certain.errors.find("was made with probability 1"), std::string::npos);
}

}  // namespace
}  // namespace mcnb::evaluate_test
