#include "mcnb/experiment/results/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "mcnb/base/check.h"
#include "mcnb/experiment/results/table_numbers.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

using Json = nlohmann::json;

template <class Value>
double mean_of(const std::vector<CellResult>& results, Value value) {
  std::vector<double> values;
  for (const CellResult& result : results) {
    values.push_back(value(result));
  }
  return mean(values);
}

// The mean over the last tenth of the measurements; a single one is about one arm of one round.
std::optional<ClusterQuality> final_quality(const std::vector<CellResult>& results) {
  ClusterQuality sum{0.0, 0.0, 0.0};
  double count = 0.0;
  for (const CellResult& result : results) {
    const std::size_t measured = result.quality.size();
    for (std::size_t i = measured - (measured + 9) / 10; i < measured; ++i) {
      sum.precision += result.quality[i].quality.precision;
      sum.recall += result.quality[i].quality.recall;
      sum.adjusted_rand += result.quality[i].quality.adjusted_rand;
      count += 1.0;
    }
  }
  if (count == 0.0) {
    return std::nullopt;
  }
  return ClusterQuality{sum.precision / count, sum.recall / count, sum.adjusted_rand / count};
}

template <class Value>
std::string cell(const std::optional<Value>& value, double Value::*member, const char* format,
                 const char* missing) {
  return value ? fmt::format(fmt::runtime(format), (*value).*member) : missing;
}

std::string cell(const std::optional<double>& value, const char* format, const char* missing) {
  return value ? fmt::format(fmt::runtime(format), *value) : missing;
}

Json to_json(const PolicySummary& summary) {
  Json json{{"policy", summary.policy},
            {"seeds", summary.seeds},
            {"regret", summary.regret},
            {"reward", summary.reward},
            {"seconds", summary.seconds},
            {"rounds_per_second", summary.rounds_per_second},
            {"training_steps", summary.training_steps},
            {"adaptation_steps", summary.adaptation_steps},
            {"memory_bytes", summary.memory_bytes}};
  if (summary.deviation) {
    json["deviation"] = *summary.deviation;
  }
  if (summary.against_first) {
    json["against_first"] = {{"difference", summary.against_first->difference},
                             {"low", summary.against_first->low},
                             {"high", summary.against_first->high},
                             {"p_value", summary.against_first->p_value},
                             {"holm_p_value", summary.against_first->holm_p}};
  }
  if (summary.quality) {
    json["quality"] = {{"precision", summary.quality->precision},
                       {"recall", summary.quality->recall},
                       {"adjusted_rand", summary.quality->adjusted_rand}};
  }
  return json;
}

void correct_for_number(std::vector<PolicySummary>& summaries) {
  std::vector<PairedComparison*> comparisons;
  for (PolicySummary& summary : summaries) {
    if (summary.against_first && summary.policy != kOracle) {
      comparisons.push_back(&*summary.against_first);
    }
  }
  correct_by_holm(comparisons);
}

}  // namespace

std::vector<CellResult> results_of(const std::vector<CellResult>& results,
                                   const std::string& policy) {
  std::vector<CellResult> found;
  std::ranges::copy_if(results, std::back_inserter(found),
                       [&](const CellResult& result) { return result.policy == policy; });
  return found;
}

std::vector<double> regrets_of(const std::vector<CellResult>& results) {
  std::vector<double> regrets;
  for (const CellResult& result : results) {
    regrets.push_back(result.regret);
  }
  return regrets;
}

std::vector<PolicySummary> summarise(const Experiment& experiment,
                                     const std::vector<CellResult>& results) {
  std::vector<PolicySummary> summaries;
  std::vector<double> first_regrets;
  for (const PolicySpec& policy : experiment.policies) {
    const std::vector<CellResult> own = results_of(results, policy.label);
    check(own.size() == experiment.options.seeds, "a summary covers all seeds");
    const std::vector<double> regrets = regrets_of(own);
    PolicySummary summary{.policy = policy.label,
                          .seeds = own.size(),
                          .regret = mean(regrets),
                          .deviation = standard_deviation(regrets)};
    if (first_regrets.empty()) {
      first_regrets = regrets;
    } else {
      summary.against_first = compare_pairs(regrets, first_regrets);
    }
    summary.reward = mean_of(own, [](const CellResult& r) { return r.reward; });
    summary.seconds = mean_of(own, [](const CellResult& r) { return r.seconds; });
    summary.rounds_per_second =
        static_cast<double>(experiment.options.rounds) / std::max(summary.seconds, 1e-9);
    summary.quality = final_quality(own);
    summary.training_steps =
        mean_of(own, [](const CellResult& r) { return static_cast<double>(r.steps.training); });
    summary.adaptation_steps =
        mean_of(own, [](const CellResult& r) { return static_cast<double>(r.steps.adaptation); });
    summary.memory_bytes =
        mean_of(own, [](const CellResult& r) { return static_cast<double>(r.memory_bytes); });
    summaries.push_back(std::move(summary));
  }
  correct_for_number(summaries);
  return summaries;
}

TextTable summary_for_people(const std::vector<PolicySummary>& summaries) {
  TextTable table({"policy", "regret", "deviation", "vs first", "p-value", "Holm's p", "seconds",
                   "rounds/s", "precision", "recall", "ARI", "training steps", "adaptation steps"});
  for (const PolicySummary& summary : summaries) {
    table.add_row({summary.policy, fmt::format("{:.1f}", summary.regret),
                   cell(summary.deviation, "{:.1f}", "-"),
                   cell(summary.against_first, &PairedComparison::difference, "{:+.1f}", "-"),
                   p_text(summary.against_first), holm_text(summary.against_first),
                   fmt::format("{:.3f}", summary.seconds),
                   fmt::format("{:.0f}", summary.rounds_per_second),
                   cell(summary.quality, &ClusterQuality::precision, "{:.3f}", "-"),
                   cell(summary.quality, &ClusterQuality::recall, "{:.3f}", "-"),
                   cell(summary.quality, &ClusterQuality::adjusted_rand, "{:.3f}", "-"),
                   fmt::format("{:.0f}", summary.training_steps),
                   fmt::format("{:.0f}", summary.adaptation_steps)});
  }
  return table;
}

TextTable summary_for_machines(const std::vector<PolicySummary>& summaries) {
  TextTable table({"policy", "seeds", "regret", "deviation", "difference", "difference_low",
                   "difference_high", "p_value", "holm_p_value", "reward", "seconds",
                   "rounds_per_second", "precision", "recall", "adjusted_rand", "training_steps",
                   "adaptation_steps", "memory_bytes"});
  for (const PolicySummary& summary : summaries) {
    table.add_row({summary.policy, std::to_string(summary.seeds), number_text(summary.regret),
                   cell(summary.deviation, "{}", ""),
                   cell(summary.against_first, &PairedComparison::difference, "{}", ""),
                   cell(summary.against_first, &PairedComparison::low, "{}", ""),
                   cell(summary.against_first, &PairedComparison::high, "{}", ""),
                   cell(summary.against_first, &PairedComparison::p_value, "{}", ""),
                   cell(summary.against_first, &PairedComparison::holm_p, "{}", ""),
                   number_text(summary.reward), number_text(summary.seconds),
                   number_text(summary.rounds_per_second),
                   cell(summary.quality, &ClusterQuality::precision, "{}", ""),
                   cell(summary.quality, &ClusterQuality::recall, "{}", ""),
                   cell(summary.quality, &ClusterQuality::adjusted_rand, "{}", ""),
                   number_text(summary.training_steps), number_text(summary.adaptation_steps),
                   number_text(summary.memory_bytes)});
  }
  return table;
}

TextTable curves_table(const std::vector<CellResult>& results) {
  TextTable table({"policy", "seed", "round", "regret", "precision", "recall", "adjusted_rand"});
  struct Row {
    std::optional<double> regret;
    std::optional<ClusterQuality> quality;
  };
  for (const CellResult& result : results) {
    std::map<std::uint64_t, Row> rows;
    for (const RegretPoint& point : result.curve) {
      rows[point.round].regret = point.regret;
    }
    for (const QualityPoint& point : result.quality) {
      rows[point.round].quality = point.quality;
    }
    for (const auto& [round, row] : rows) {
      table.add_row({result.policy, std::to_string(result.seed), std::to_string(round),
                     cell(row.regret, "{}", ""),
                     cell(row.quality, &ClusterQuality::precision, "{}", ""),
                     cell(row.quality, &ClusterQuality::recall, "{}", ""),
                     cell(row.quality, &ClusterQuality::adjusted_rand, "{}", "")});
    }
  }
  return table;
}

std::string experiment_json(const Experiment& experiment,
                            const std::vector<PolicySummary>& summaries,
                            const std::vector<CellResult>& results) {
  Json policies = Json::array();
  for (const PolicySpec& policy : experiment.policies) {
    policies.push_back(
        {{"label", policy.label},
         {"name", policy.name},
         {"options", policy.name == kOracle ? OptionValues{} : resolved_options(policy)}});
  }
  Json summary = Json::array();
  for (const PolicySummary& one : summaries) {
    summary.push_back(to_json(one));
  }
  Json cells = Json::array();
  for (const CellResult& result : results) {
    cells.push_back(Json::parse(result_to_json(result)));
  }
  return Json{{"version", MCNB_VERSION},
              {"environment", experiment.environment.name},
              {"environment_options", all_options(experiment.environment)},
              {"environment_description", experiment.description},
              {"rounds", experiment.options.rounds},
              {"seeds", experiment.options.seeds},
              {"first_seed", experiment.options.first_seed},
              {"policies", std::move(policies)},
              {"summary", std::move(summary)},
              {"cells", std::move(cells)}}
             .dump(1) +
         "\n";
}

}  // namespace mcnb
