#include "mcnb/evaluate/evaluation_report.h"

#include <fmt/core.h>

#include <cmath>

#include "mcnb/base/json_writer.h"

namespace mcnb {
namespace {

// What a cell has that has nothing: programs expect nothing at all.
const char* missing(bool all_digits) { return all_digits ? "" : "-"; }

std::string number(double value, bool all_digits) {
  constexpr double kLong = 1e6;  // in plain digits
  return std::isnan(value)          ? missing(all_digits)
         : all_digits               ? fmt::format("{}", value)
         : std::abs(value) <= kLong ? fmt::format("{:.5f}", value)
                                    : fmt::format("{:.5g}", value);
}

std::string parameter(double value, bool all_digits) {
  return value == kNoLimit ? missing(all_digits)
         : all_digits      ? fmt::format("{}", value)
                           : fmt::format("{:.3g}", value);
}

std::string slot_text(const SlotEvaluation& slot) {
  return slot.slot ? std::to_string(*slot.slot) : "all";
}

void add_pair(std::vector<std::string>& cells, const std::optional<Interval>& interval,
              bool all_digits) {
  cells.push_back(interval ? number(interval->low, all_digits) : missing(all_digits));
  cells.push_back(interval ? number(interval->high, all_digits) : missing(all_digits));
}

const char* method_name(LearningPolicy::Method method) {
  return method == LearningPolicy::Method::kReplay ? "replay" : "progressive";
}

void write_interval(JsonWriter& json, const char* name, const std::optional<Interval>& interval) {
  json.key(name);
  if (!interval) {
    json.raw("null");
    return;
  }
  json.begin_array().value(interval->low).value(interval->high).end_array();
}

void write_estimate(JsonWriter& json, const PolicyEstimate& estimate) {
  json.begin_object().field("estimator", name_of(estimate.estimator));
  json.field("value", estimate.value).field("parameter", estimate.parameter);
  json.field("bias", estimate.bias).field("error", estimate.error);
  write_interval(json, "bootstrap", estimate.bootstrap);
  write_interval(json, "bernstein", estimate.bernstein);
  json.field("difference", estimate.difference);
  write_interval(json, "differenceInterval", estimate.difference_interval);
  json.end_object();
}

void write_policy(JsonWriter& json, const PolicyEvaluation& policy) {
  json.begin_object().field("policy", policy.name);
  json.field("effectiveSampleSize", policy.weights.effective_size);
  json.field("positiveRewards", policy.weights.positive);
  json.field("meanWeight", policy.weights.mean);
  write_interval(json, "meanWeightInterval", policy.weights.mean_interval);
  json.key("largestWeights").begin_array();
  for (const double weight : policy.weights.largest) {
    json.value(weight);
  }
  json.end_array().field("impossible", policy.weights.impossible);
  write_interval(json, "anytime", policy.anytime);
  json.key("estimates").begin_array();
  for (const PolicyEstimate& estimate : policy.estimates) {
    write_estimate(json, estimate);
  }
  json.end_array().end_object();
}

void write_log(JsonWriter& json, const Evaluation& evaluation) {
  const LogHealth& log = evaluation.log;
  json.key("log").begin_object();
  json.field("rounds", log.rounds).field("excluded", evaluation.excluded);
  json.field("unrewarded", evaluation.unrewarded).field("positiveRewards", log.positive);
  json.field("defaultRewards", log.defaults).field("leastProbability", log.least_probability);
  json.field("onlyChosenProbability", log.only_chosen);
  json.field("wrongSums", log.unsummed).field("actions", log.actions.size());
  json.field("actionsTaken", log.taken.size()).end_object();
}

}  // namespace

TextTable log_table(const Evaluation& evaluation) {
  const LogHealth& log = evaluation.log;
  TextTable table({"log", "count"});
  table.add_row({"rounds", std::to_string(log.rounds)});
  table.add_row({"excluded", std::to_string(evaluation.excluded)});
  table.add_row({"without a reward", std::to_string(evaluation.unrewarded)});
  table.add_row({"rewards above 0", std::to_string(log.positive)});
  table.add_row({"default rewards", std::to_string(log.defaults)});
  table.add_row({"actions", std::to_string(log.actions.size())});
  table.add_row({"actions ever taken", std::to_string(log.taken.size())});
  table.add_row({"least probability", fmt::format("{:.4g}", log.least_probability)});
  return table;
}

TextTable weights_table(const Evaluation& evaluation) {
  TextTable table({"policy", "effective size", "rewards above 0", "mean weight", "from", "to",
                   "largest weights", "impossible"});
  for (const PolicyEvaluation& policy : evaluation.slots.front().policies) {
    const WeightHealth& health = policy.weights;
    std::string largest;
    for (const double weight : health.largest) {
      largest += fmt::format("{}{:.3g}", largest.empty() ? "" : " ", weight);
    }
    table.add_row({policy.name, fmt::format("{:.0f}", health.effective_size),
                   std::to_string(health.positive), fmt::format("{:.4f}", health.mean),
                   fmt::format("{:.4f}", health.mean_interval.low),
                   fmt::format("{:.4f}", health.mean_interval.high), largest,
                   fmt::format("{:.2f} %", 100.0 * health.impossible)});
  }
  return table;
}

TextTable estimates_table(const Evaluation& evaluation, bool all_digits) {
  TextTable table({"slot", "policy", "estimator", "value", "bootstrap low", "bootstrap high",
                   "Bernstein low", "Bernstein high", "anytime low", "anytime high", "difference",
                   "difference low", "difference high", "limit", "bias", "error"});
  for (const SlotEvaluation& slot : evaluation.slots) {
    std::vector<std::string> logged{slot_text(slot), "logged", "mean",
                                    number(slot.logged, all_digits)};
    add_pair(logged, slot.logged_interval, all_digits);
    logged.resize(table.headings().size(), missing(all_digits));
    table.add_row(logged);
    for (const PolicyEvaluation& policy : slot.policies) {
      for (const PolicyEstimate& estimate : policy.estimates) {
        std::vector<std::string> cells{slot_text(slot), policy.name, name_of(estimate.estimator),
                                       number(estimate.value, all_digits)};
        add_pair(cells, estimate.bootstrap, all_digits);
        add_pair(cells, estimate.bernstein, all_digits);
        add_pair(cells, estimate.estimator == Estimator::kIps ? policy.anytime : std::nullopt,
                 all_digits);
        cells.push_back(number(estimate.difference, all_digits));
        add_pair(cells, estimate.difference_interval, all_digits);
        cells.push_back(parameter(estimate.parameter, all_digits));
        cells.push_back(is_unbiased(estimate.estimator) ? missing(all_digits)
                                                        : number(estimate.bias, all_digits));
        cells.push_back(number(estimate.error, all_digits));
        table.add_row(cells);
      }
    }
  }
  return table;
}

TextTable learning_table(const Evaluation& evaluation) {
  TextTable table(
      {"policy", "method", "value", "anytime low", "anytime high", "rounds kept", "share"});
  for (const LearningEvaluation& learning : evaluation.learning) {
    std::vector<std::string> cells{learning.name, method_name(learning.method),
                                   number(learning.value, false)};
    add_pair(cells, learning.anytime, false);
    cells.push_back(std::to_string(learning.kept));
    cells.push_back(fmt::format("{:.2f} %", 100.0 * static_cast<double>(learning.kept) /
                                                static_cast<double>(learning.rounds)));
    table.add_row(cells);
  }
  return table;
}

std::string evaluation_json(const Evaluation& evaluation) {
  JsonWriter json;
  json.begin_object();
  write_log(json, evaluation);
  json.key("slots").begin_array();
  for (const SlotEvaluation& slot : evaluation.slots) {
    json.begin_object().field("slot", slot_text(slot)).field("rounds", slot.rounds);
    json.field("logged", slot.logged);
    write_interval(json, "loggedInterval", slot.logged_interval);
    json.key("policies").begin_array();
    for (const PolicyEvaluation& policy : slot.policies) {
      write_policy(json, policy);
    }
    json.end_array().end_object();
  }
  json.end_array().key("learning").begin_array();
  for (const LearningEvaluation& learning : evaluation.learning) {
    json.begin_object().field("policy", learning.name);
    json.field("method", method_name(learning.method)).field("value", learning.value);
    write_interval(json, "anytime", learning.anytime);
    json.field("rounds", learning.rounds).field("kept", learning.kept).end_object();
  }
  json.end_array().key("warnings").begin_array();
  for (const std::string& warning : evaluation.warnings) {
    json.value(warning);
  }
  return json.end_array().end_object().take();
}

}  // namespace mcnb
