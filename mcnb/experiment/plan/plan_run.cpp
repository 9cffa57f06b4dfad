#include "mcnb/experiment/plan/plan_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>

#include "mcnb/base/error.h"
#include "mcnb/experiment/plan/rank_memory.h"
#include "mcnb/experiment/results/statistics.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

using Found = std::vector<std::optional<CellResult>>;

constexpr const char* kNotMatched = "not matched: no training of its own that could be longer";

std::size_t missing_in(const Found& results) {
  return static_cast<std::size_t>(
      std::ranges::count_if(results, [](const auto& result) { return !result; }));
}

double seconds_of(const Found& results) {
  double seconds = 0.0;
  for (const std::optional<CellResult>& result : results) {
    seconds += result ? result->seconds : 0.0;
  }
  return seconds;
}

// One policy of one study, with the combinations of options to choose from.
struct TuningCase {
  std::size_t study;
  std::size_t policy;
  std::vector<PolicySpec> points;
  std::size_t first_cell;
};

class PlanRun {
 public:
  PlanRun(const Plan& plan, std::vector<Study> studies, const CellStore& store,
          const PlanRunOptions& options, RunControl& control, ExperimentProgress& progress)
      : plan_(plan),
        studies_(std::move(studies)),
        store_(store),
        options_(options),
        control_(control),
        progress_(progress) {}

  PlanResults run() {
    prepare();
    name_options();
    bool ready = true;
    if (plan_.matched_to.empty()) {
      ready = tune([](const PolicySpec&) { return true; });
    } else {
      // Matched policies are tuned with the steps that they will be run with.
      const auto is_model = [&](const PolicySpec& policy) {
        return policy.label == plan_.matched_to;
      };
      ready = tune(is_model) && match() &&
              tune([&](const PolicySpec& policy) { return !is_model(policy); });
    }
    std::vector<Cell> cells;
    for (const Study& study : studies_) {
      const std::vector<Cell> own = cells_of(study.experiment);
      cells.insert(cells.end(), own.begin(), own.end());
    }
    failed_.clear();
    const Found found = ready ? run_all(cells) : Found(cells.size());
    outcome_.seconds += seconds_of(found);
    std::size_t at = 0;
    for (Study& study : studies_) {
      StudyResults results{.study = std::move(study), .results = {}};
      const std::size_t count = cells_of(results.study.experiment).size();
      for (std::size_t i = 0; i < count; ++i, ++at) {
        if (found[at]) {
          results.results.push_back(*found[at]);
        } else {
          ++results.missing;
          ++(failed_.contains(at) ? outcome_.failed : outcome_.missing);
        }
      }
      outcome_.studies.push_back(std::move(results));
    }
    if (plan_.order_of_arms && !plan_.axis->of_environment &&
        outcome_.missing + outcome_.failed == 0) {
      compare_ranks_on_axis();
    }
    return std::move(outcome_);
  }

 private:
  Found run_all(const std::vector<Cell>& cells) {
    CellRunOptions options = options_.cells;
    failed_.clear();
    options.failures = &failed_;
    options.origins = &outcome_.origins;
    Found found = run_cells(cells, store_, options, control_, progress_);
    for (const auto& [index, why] : failed_) {
      outcome_.failures.push_back({cells[index], why});
    }
    return found;
  }

  // Leaves out values of an axis that an environment cannot have, like more users than its data
  // has, unless no value would remain.
  void prepare() {
    std::vector<Study> playable;
    for (Study& study : studies_) {
      try {
        study.experiment.description =
            make_environment(study.experiment.environment, study.experiment.options.first_seed)
                ->description();
      } catch (const Error& error) {
        const bool is_last = &study == &studies_.back() && playable.empty();
        if (!options_.cells.stored_only && (study.at.empty() || is_last)) {
          throw;
        }
        if (!options_.cells.stored_only) {
          outcome_.left_out.push_back(
              fmt::format("{} = {} is left out: {}", plan_.axis->option, study.at, error.what()));
          continue;
        }  // a report does not need the environment
      }
      playable.push_back(std::move(study));
    }
    studies_ = std::move(playable);
  }

  // Notes policies whose options differ from those in their names.
  void name_options() {
    for (const Study& study : studies_) {
      for (const PolicySpec& policy : study.experiment.policies) {
        if (policy.name != kOracle &&
            resolved_options(policy) != resolved_options(parse_policy(policy.label))) {
          outcome_.chosen.push_back({.environment = study.environment,
                                     .at = study.at,
                                     .policy = policy.label,
                                     .chosen = written(policy)});
        }
      }
    }
  }

  // Replaces what was noted about the policy before, except that it could not be matched.
  void note_options(ChosenOptions chosen) {
    std::erase_if(outcome_.chosen, [&](const ChosenOptions& before) {
      return before.environment == chosen.environment && before.at == chosen.at &&
             before.policy == chosen.policy && before.matched;
    });
    outcome_.chosen.push_back(std::move(chosen));
  }

  // Compares the ranks of the arms along the axis, for the first policy in the first study. The
  // store keeps the result.
  void compare_ranks_on_axis() {
    const Experiment& study = outcome_.studies.front().study.experiment;
    std::vector<PolicySpec> policies;
    for (const std::string& label : with_values({plan_.policies.front()}, *plan_.axis)) {
      const auto found = std::ranges::find_if(study.policies, [&](const PolicySpec& policy) {
        return policy.label == label || policy.label.starts_with(label + ":");
      });
      if (found == study.policies.end()) {
        return;
      }
      policies.push_back(*found);
    }
    Experiment shorter = study;
    shorter.options.rounds = std::min(study.options.rounds, kRankRounds);
    const RankMemory memory(store_, shorter, policies);
    const bool stored_only = options_.cells.stored_only;
    if (!options_.cells.fresh) {
      outcome_.rank_agreement = memory.find(stored_only);
    }
    if (!outcome_.rank_agreement.empty() || stored_only) {
      return;
    }
    outcome_.rank_agreement =
        compare_ranks(shorter, policies, plan_.axis->values, kRankStride, control_);
    if (!outcome_.rank_agreement.empty()) {
      memory.keep(outcome_.rank_agreement);
    }
  }

  // Runs the tuning of the wanted policies. Returns false if runs are missing.
  template <class IsWanted>
  bool tune(IsWanted is_wanted) {
    if (!options_.tune) {
      return true;
    }
    const TuningPlan& tuning = plan_.tuning;
    std::vector<TuningCase> cases;
    std::vector<Cell> cells;
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      const Experiment& experiment = studies_[s].experiment;
      check_tuning_seeds(tuning, experiment.options);
      for (std::size_t p = 0; p < experiment.policies.size(); ++p) {
        std::vector<PolicySpec> points =
            experiment.policies[p].name == kOracle || !is_wanted(experiment.policies[p])
                ? std::vector<PolicySpec>()
                : grid_of(tuning, experiment.policies[p]);
        if (points.size() < 2) {
          continue;
        }
        const std::size_t first_cell = cells.size();
        for (const PolicySpec& point : points) {
          for (std::uint64_t i = 0; i < tuning.seeds; ++i) {
            cells.push_back({experiment.environment, point, tuning.first_seed + i, tuning.rounds});
          }
        }
        cases.push_back({s, p, std::move(points), first_cell});
      }
    }
    const Found found = run_all(cells);
    outcome_.seconds += seconds_of(found);
    outcome_.missing += missing_in(found) - failed_.size();
    if (outcome_.missing > 0) {
      return false;
    }
    for (const TuningCase& one : cases) {
      choose(one, found);
    }
    return true;
  }

  // Takes the combination of options with the least mean regret, the first of several.
  void choose(const TuningCase& one, const Found& found) {
    PolicySpec& policy = studies_[one.study].experiment.policies[one.policy];
    ChosenOptions chosen{.environment = studies_[one.study].environment,
                         .at = studies_[one.study].at,
                         .policy = policy.label,
                         .chosen = {},
                         .points = one.points.size(),
                         .regret = std::numeric_limits<double>::infinity()};
    std::size_t at = one.first_cell;
    const PolicySpec* best = nullptr;
    for (const PolicySpec& point : one.points) {
      double regret = 0.0;
      for (std::uint64_t i = 0; i < plan_.tuning.seeds; ++i, ++at) {
        if (!found[at]) {
          regret = std::numeric_limits<double>::infinity();
          continue;
        }
        regret += found[at]->regret / static_cast<double>(plan_.tuning.seeds);
        chosen.steps += found[at]->steps.training + found[at]->steps.adaptation;
      }
      if (regret < chosen.regret) {
        chosen.regret = regret;
        best = &point;
      }
    }
    if (best == nullptr) {
      return;  // its reported runs will fail too, and say why
    }
    chosen.chosen = best->label;
    policy.options = best->options;  // its label stays that of the plan
    note_options(std::move(chosen));
  }

  // Gives the trainings of neural policies as many steps as the policy `matched_to` took, on
  // average over the seeds of a study. Their stop_loss becomes 0, so that they take all steps,
  // unless their grid tries values of it.
  bool match() {
    std::vector<Cell> cells;
    std::vector<std::size_t> model(studies_.size());  // index of that policy in each study
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      const std::vector<PolicySpec>& policies = studies_[s].experiment.policies;
      const auto found = std::ranges::find(policies, plan_.matched_to, &PolicySpec::label);
      if (found == policies.end()) {
        refuse_option("matched_to", "one of the plan's policies", plan_.matched_to);
      }
      model[s] = static_cast<std::size_t>(found - policies.begin());
      Experiment alone = studies_[s].experiment;
      alone.policies = {*found};
      const std::vector<Cell> own = cells_of(alone);
      cells.insert(cells.end(), own.begin(), own.end());
    }
    const PlanResults before = outcome_;
    const Found found = run_all(cells);
    outcome_ = before;  // the last step counts these cells again
    if (missing_in(found) > failed_.size()) {
      return false;
    }
    std::size_t at = 0;
    for (std::size_t s = 0; s < studies_.size(); ++s) {
      Experiment& experiment = studies_[s].experiment;
      double steps = 0.0;
      bool is_known = true;
      for (std::uint64_t i = 0; i < experiment.options.seeds; ++i, ++at) {
        if (!found[at]) {
          is_known = false;
          continue;
        }
        steps += static_cast<double>(found[at]->steps.training + found[at]->steps.adaptation) /
                 static_cast<double>(experiment.options.seeds);
      }
      if (!is_known) {  // without its steps nothing can be matched: only this policy is left
        experiment.policies = {experiment.policies[model[s]]};
        continue;
      }
      for (std::size_t p = 0; p < experiment.policies.size(); ++p) {
        if (p != model[s]) {
          give_steps(studies_[s], experiment.policies[p], steps);
        }
      }
    }
    return true;
  }

  void give_steps(const Study& study, PolicySpec& policy, double steps) {
    const OptionValues options = policy.name == kOracle ? OptionValues() : resolved_options(policy);
    ChosenOptions chosen{.environment = study.environment,
                         .at = study.at,
                         .policy = policy.label,
                         .chosen = kNotMatched,
                         .matched = false};
    if (!options.contains("train_steps") || options.at("training") != "replay") {
      if (options.contains("training")) {
        outcome_.chosen.push_back(std::move(chosen));
      }
      return;
    }
    const std::uint64_t trainings = trainings_in(study.experiment.options.rounds, options);
    const auto each = static_cast<std::uint64_t>(
        std::max(1.0, steps / static_cast<double>(std::max<std::uint64_t>(trainings, 1)) + 0.5));
    policy.options["train_steps"] = std::to_string(each);
    const bool is_tried =
        options_.tune && std::ranges::any_of(plan_.tuning.grids, [&](const Grid& grid) {
          return std::ranges::count(grid.policies, policy.name) > 0 &&
                 std::ranges::count(grid.options, "stop_loss", &Axis::option) > 0;
        });
    if (!is_tried) {
      policy.options["stop_loss"] = "0";
    }
    chosen.chosen = written(policy);
    chosen.matched = true;
    note_options(std::move(chosen));
  }

  const Plan& plan_;
  std::vector<Study> studies_;
  const CellStore& store_;
  const PlanRunOptions& options_;
  RunControl& control_;
  ExperimentProgress& progress_;
  PlanResults outcome_;
  CellFailures failed_;  // of the cells run last
};

}  // namespace

std::uint64_t trainings_in(std::uint64_t rounds, const OptionValues& policy) {
  const auto value = [&](const char* name) {
    return parse_count(name, {0, 1e15}, policy.at(name));
  };
  const std::uint64_t often = std::min(rounds, value("train_often_until"));
  const std::uint64_t later = value("train_every_later");
  return often / value("train_every") + rounds / later - often / later;
}

PlanResults run_plan(const Plan& plan, std::vector<Study> studies, const CellStore& store,
                     const PlanRunOptions& options, RunControl& control,
                     ExperimentProgress& progress) {
  return PlanRun(plan, std::move(studies), store, options, control, progress).run();
}

}  // namespace mcnb
