#include "mcnb/evaluate/column_evaluation.h"

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/evaluate/log_warnings.h"
#include "mcnb/evaluate/readers/column_reader.h"
#include "mcnb/evaluate/slot_estimates.h"

namespace mcnb {
namespace {

constexpr std::size_t kRowsAtOnce = 1024;
constexpr const char* kPolicyName = "policy";

void note_row(const PolicyRow& row, LogHealth& log) {
  const double reward = row.row.reward;
  log.lowest_reward = log.rounds == 0 ? reward : std::min(log.lowest_reward, reward);
  log.highest_reward = log.rounds == 0 ? reward : std::max(log.highest_reward, reward);
  ++log.rounds;
  log.positive += reward > 0.0 ? 1 : 0;
  log.certain += row.probability >= 1.0 ? 1 : 0;
  ++log.only_chosen;
  log.least_probability = std::min(log.least_probability, row.probability);
}

}  // namespace

ColumnEvaluation evaluate_columns(const Input& input, const EvaluationOptions& given,
                                  std::uint64_t skip_bad) {
  ColumnReader reader(input, skip_bad);
  EvaluationOptions options = given;
  if (!reader.has_model()) {
    std::erase_if(options.estimators, uses_model);
  }
  if (options.estimators.empty()) {
    throw Error(ErrorKind::kUsage,
                "these estimators need the columns model_logged and model_policy");
  }
  constexpr Estimator kLogged[] = {Estimator::kIps};
  std::vector<PolicySums> sums;
  sums.emplace_back("logged", kLogged, options);
  sums.emplace_back(kPolicyName, options.estimators, options);
  ColumnEvaluation result;
  LogHealth& log = result.evaluation.log;
  std::vector<PolicyRow> rows(kRowsAtOnce);
  const auto in_range = [&](double reward) {
    return reward >= options.lowest_reward && reward <= options.highest_reward;
  };
  bool& models_in_range = sums[1].models_in_range;
  while (const std::size_t count = reader.read(rows)) {
    for (const PolicyRow& row : std::span(rows).first(count)) {
      note_row(row, log);
      sums[0].add({.weight = 1.0, .reward = row.row.reward});
      sums[1].add(row.row);
      models_in_range =
          models_in_range && in_range(row.row.model_logged) && in_range(row.row.model_policy);
    }
  }
  if (log.rounds < 2) {
    throw Error(ErrorKind::kInput, input.name() + ": expected at least 2 rows");
  }
  if (log.is_deterministic()) {
    refuse_certain_log(options.estimators);
  }
  sums[1].largest_weight = 1.0 / log.least_probability;
  sums[0].finish();
  sums[1].finish();
  const bool bounded =
      log.lowest_reward >= options.lowest_reward && log.highest_reward <= options.highest_reward;
  result.evaluation.slots.push_back(estimate_slot(options, sums, 1, bounded));
  add_warnings(options, result.evaluation);
  if (reader.has_model() && !models_in_range) {
    result.evaluation.warnings.push_back(
        "the columns model_logged and model_policy leave the range of rewards, so estimators that "
        "use "
        "the model have no Bernstein intervals: see --reward-range");
  }
  result.skipped = reader.skipped();
  return result;
}

}  // namespace mcnb
