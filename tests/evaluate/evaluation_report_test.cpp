// What people and programs are told of an evaluation.

#include "mcnb/evaluate/evaluation_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "mcnb/evaluate/column_evaluation.h"
#include "mcnb/evaluate/readers/column_reader.h"
#include "tests/data/data_files.h"
#include "tests/evaluate/synthetic_log.h"
#include "tests/expect_error.h"

namespace mcnb::evaluation_report_test {
namespace {

using cases::evaluate;
using cases::synthetic_log;

EvaluationOptions options_for(std::vector<std::string> policies) {
  EvaluationOptions options;
  options.policies = std::move(policies);
  options.dimension = 16;
  options.replicates = 200;
  return options;
}

TEST(EvaluationReport, TablesAndJsonSayTheSame) {
  const Evaluation evaluation =
      evaluate(synthetic_log({}, 14, 200), options_for({"random", "replay=random"}));
  const auto json = nlohmann::json::parse(evaluation_json(evaluation));
  const TextTable table = estimates_table(evaluation, true);
  const auto& policy = json["slots"][0]["policies"][0];
  ASSERT_EQ(table.row_count(), 1 + policy["estimates"].size());
  EXPECT_EQ(table.rows()[0][3], fmt::format("{}", json["slots"][0]["logged"].get<double>()));
  for (std::size_t e = 0; e < policy["estimates"].size(); ++e) {
    const auto& estimate = policy["estimates"][e];
    const std::vector<std::string>& row = table.rows()[e + 1];
    EXPECT_EQ(row[2], estimate["estimator"].get<std::string>());
    EXPECT_EQ(row[3], fmt::format("{}", estimate["value"].get<double>()));
    EXPECT_EQ(row[4], fmt::format("{}", estimate["bootstrap"][0].get<double>()));
  }
  EXPECT_EQ(json["learning"][0]["kept"], evaluation.learning[0].kept);
  EXPECT_EQ(json["log"]["rounds"], 200);
  EXPECT_NE(log_table(evaluation).aligned().find("rewards above 0"), std::string::npos);
}

// Nobody ever chose as the policy does: a ratio of nothing to nothing is no value.
TEST(EvaluationReport, SaysNothingOfAPolicyThatNeverAgrees) {
  std::vector<LoggedRound> rounds = synthetic_log({}, 16, 300);
  std::erase_if(rounds, [](const LoggedRound& round) { return round.chosen == 3; });
  EvaluationOptions options = options_for({"action=a3"});
  options.estimators = {Estimator::kSnips};
  const Evaluation evaluation = evaluate(rounds, options);
  const auto json = nlohmann::json::parse(evaluation_json(evaluation));
  const auto& snips = json["slots"][0]["policies"][0]["estimates"][0];
  for (const char* field : {"value", "error", "difference"}) {
    EXPECT_TRUE(snips[field].is_null()) << field;
  }
  EXPECT_TRUE(snips["bootstrap"][0].is_null());
  EXPECT_EQ(estimates_table(evaluation, false).rows()[1][3], "-");
}

// Programs take a column for numbers only if nothing else is in it.
TEST(EvaluationReport, CellsOfProgramsAreNumbersOrEmpty) {
  EvaluationOptions options = options_for({"random", "action=a1"});
  options.highest_reward = 0.5;  // no Bernstein and anytime intervals
  const TextTable table = estimates_table(evaluate(synthetic_log({}, 17, 200), options), true);
  for (const std::vector<std::string>& row : table.rows()) {
    for (std::size_t i = 3; i < row.size(); ++i) {
      char* end = nullptr;
      std::strtod(row[i].c_str(), &end);
      EXPECT_EQ(end, row[i].c_str() + row[i].size()) << table.headings()[i] << ": " << row[i];
    }
  }
  EXPECT_EQ(table.rows()[1][6], "");
}

TEST(EvaluationReport, TheErrorIsMadeOfScatterAndBias) {
  const std::vector<LoggedRound> rounds = synthetic_log({.epsilon = 0.05}, 18, 400);
  const Evaluation evaluation = evaluate(rounds, options_for({"random"}));
  const auto json = nlohmann::json::parse(evaluation_json(evaluation));
  const auto& estimates = json["slots"][0]["policies"][0]["estimates"];
  double sum = 0.0;
  double squares = 0.0;
  for (const LoggedRound& round : rounds) {
    const double earned = 0.25 / round.probability * *round.reward;
    sum += earned;
    squares += earned * earned;
  }
  const double scatter = std::sqrt(squares - sum * sum / 400.0) / 400.0;
  EXPECT_NEAR(estimates[0]["error"].get<double>(), scatter, 1e-12);
  double clipped_sum = 0.0;
  squares = 0.0;
  for (const LoggedRound& round : rounds) {
    const double most =
        estimates[1]["parameter"].is_null() ? kNoLimit : estimates[1]["parameter"].get<double>();
    const double earned = std::min(most, 0.25 / round.probability) * *round.reward;
    clipped_sum += earned;
    squares += earned * earned;
  }
  const double variance = (squares - clipped_sum * clipped_sum / 400.0) / (400.0 * 400.0);
  const double bias = (clipped_sum - sum) / 400.0;
  EXPECT_LT(bias, 0.0);
  EXPECT_NEAR(estimates[1]["error"].get<double>(), std::sqrt(variance + bias * bias), 1e-12);
  EXPECT_EQ(estimates_table(evaluation, true).rows()[2].back(),
            fmt::format("{}", estimates[1]["error"].get<double>()));
}

// Bernstein's bound needs the range of what is averaged; rewards of a model are part of it.
TEST(EvaluationReport, ModelsBeyondTheRangeOfRewardsHaveNoBernsteinIntervals) {
  const std::string text =
      "probability,policy_probability,reward,model_logged,model_policy\n"
      "0.5,0.7,1,0.4,0.5\n0.5,0.3,0,7,0.5\n0.5,0.3,1,0.1,0.5\n";
  const Evaluation found =
      evaluate_columns(text_input(text, "t.csv"), options_for({}), 0).evaluation;
  for (const PolicyEstimate& estimate : found.slots[0].policies[0].estimates) {
    EXPECT_EQ(estimate.bernstein.has_value(),
              !uses_model(estimate.estimator) && estimate.estimator != Estimator::kSnips);
  }
  EXPECT_TRUE(std::ranges::any_of(found.warnings, [](const std::string& warning) {
    return warning.find("model_logged and model_policy leave the range") != std::string::npos;
  }));
  // A decision whose context has a feature of this name is no table.
  EXPECT_FALSE(is_policy_table(R"({"c":{"policy_probability":1},"a":[1],"p":[1]})"));
}

}  // namespace
}  // namespace mcnb::evaluation_report_test
