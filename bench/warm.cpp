#include "bench/warm.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <numeric>

#include "bench/report.h"
#include "mcnb/base/files.h"
#include "mcnb/base/random.h"
#include "mcnb/base/text_table.h"
#include "mcnb/evaluate/log_training.h"
#include "mcnb/experiment/results/statistics.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/experiment/run/runner.h"

namespace mcnb::bench {
namespace {

// What a policy has learned before its first round.
enum class Start { kCold, kUniform, kPreferring, kWeighted };
struct StartKind {
  Start start;
  const char* name;
};
constexpr std::array<StartKind, 4> kStarts = {{{Start::kCold, "cold"},
                                               {Start::kUniform, "log of random choices"},
                                               {Start::kPreferring, "log that prefers an arm"},
                                               {Start::kWeighted, "the same, weighted"}}};

// A run in one world.
struct WarmCell {
  std::size_t environment;
  std::size_t policy;
  Start start;
  std::uint64_t seed;
};

// The arm that a log shows in a round, and with which probability.
struct Shown {
  std::size_t arm;
  double probability;
};
Shown shown_arm(const WarmCell& cell, const Round& round, double epsilon) {
  Rng rng(cell.seed, Stream::kTest, index(round.id));
  const std::size_t arms = round.arms.size();
  const std::size_t random = rng.below(arms);
  const double even = 1.0 / static_cast<double>(arms);
  if (cell.start == Start::kUniform) {
    return {random, even};
  }
  const std::size_t arm = rng.chance(epsilon) ? random : 0;
  return {arm, epsilon * even + (arm == 0 ? 1.0 - epsilon : 0.0)};
}

// Plays the rounds of the log; a policy that is not cold learns them. Environments say which user a
// round has by a number, which is the user's name in the log.
void learn_log(Environment& environment, Policy& policy, const WarmCell& cell,
               const WarmBenchOptions& options) {
  std::vector<std::string> names(environment.user_count());
  for (std::size_t user = 0; user < names.size(); ++user) {
    names[user] = std::to_string(user);
  }
  LogUsers users(std::move(names));
  std::vector<float> features;
  for (std::uint64_t number = 0; number < options.logged; ++number) {
    const Round& round = environment.next_round();
    if (cell.start == Start::kCold) {
      continue;
    }
    const Shown shown = shown_arm(cell, round, options.epsilon);
    LoggedRound logged;
    logged.user = std::to_string(index(round.arms[shown.arm].user));
    logged.actions.resize(round.arms.size());
    logged.chosen = static_cast<std::uint32_t>(shown.arm);
    logged.probability = shown.probability;
    logged.reward = environment.reward(ArmIndex{logged.chosen});
    features.clear();
    for (const Arm& arm : round.arms) {
      features.insert(features.end(), arm.features.values.begin(), arm.features.values.end());
    }
    learn_round(policy, users, {index(round.id), logged, features},
                {.importance = cell.start == Start::kWeighted}, cell.seed);
  }
}

double regret_of(const WarmCell& cell, const PolicySpec& spec, const WarmBenchOptions& options) {
  const auto environment = make_environment(options.environments[cell.environment], cell.seed);
  ThreadPool one(1);
  const PolicySetup setup = setup_for(*environment, cell.seed, one);
  const auto policy = make_experiment_policy(spec, setup, *environment);
  for (const StartDatum& datum : environment->start_data()) {
    policy->start(datum.user, datum.sample);
  }
  learn_log(*environment, *policy, cell, options);
  double regret = 0.0;
  for (std::uint64_t number = 0; number < options.rounds; ++number) {
    const Round& round = environment->next_round();
    const ArmIndex arm = policy->choose(round);
    regret += best_expected_reward(*environment, round) - environment->expected_reward(arm);
    policy->learn(round.id, round.arms[index(arm)], environment->reward(arm));
  }
  return regret;
}

void check_environment(const EnvironmentSpec& spec) {
  if (is_classification(spec)) {
    throw Error(ErrorKind::kUsage, fmt::format("environment {}: expected one whose rounds have one "
                                               "user, because logs have",
                                               spec.name));
  }
}

void add_start(TextTable& table, const std::string& environment, const std::string& policy,
               const char* start, const std::vector<double>& regrets,
               const std::vector<double>& cold) {
  const auto less = compare_pairs(regrets, cold);
  table.add_row({environment, policy, start, fmt::format("{:.0f}", mean(regrets)),
                 fmt::format("{:.0f}", standard_deviation(regrets).value_or(0.0)),
                 less ? fmt::format("{:.0f}", less->difference) : "-",
                 less ? fmt::format("{:.0f}", less->low) : "-",
                 less ? fmt::format("{:.0f}", less->high) : "-"});
}

}  // namespace

void bench_warm(const WarmBenchOptions& options) {
  require_within("--logged", options.logged, 1, 10'000'000);
  require_within("--rounds", options.rounds, 1, 10'000'000);
  require_within("--seeds", options.seeds, 2, 1000);
  make_output_folder(options.output);
  const std::vector<PolicySpec> policies = parse_policies(options.policies);
  std::vector<WarmCell> cells;
  for (std::size_t e = 0; e < options.environments.size(); ++e) {
    check_environment(options.environments[e]);
    for (std::size_t p = 0; p < policies.size(); ++p) {
      for (const StartKind& kind : kStarts) {
        for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
          cells.push_back({e, p, kind.start, seed});
        }
      }
    }
  }
  std::vector<double> regrets(cells.size());
  ThreadPool threads(options.threads);
  threads.parallel_for(cells.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      regrets[i] = regret_of(cells[i], policies[cells[i].policy], options);
    }
  });
  TextTable table(
      {"environment", "policy", "start", "regret", "deviation", "minus cold", "from", "to"});
  std::vector<double> cold;
  for (std::size_t i = 0; i < cells.size(); i += options.seeds) {
    const auto begin = regrets.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<double> own(begin, begin + static_cast<std::ptrdiff_t>(options.seeds));
    if (cells[i].start == Start::kCold) {
      cold = own;
    }
    const auto kind = static_cast<std::size_t>(cells[i].start);
    add_start(table, options.environments[cells[i].environment].name,
              policies[cells[i].policy].label, kStarts[kind].name, own, cold);
  }
  write_file(std::filesystem::path(options.output) / "bench-warm.csv", table.csv());
  fmt::print(
      "{}\n{} rounds after {} of the log, seeds 1 to {}; differences from the cold start "
      "with their 95 % intervals, seed by seed\n",
      table.aligned(), options.rounds, options.logged, options.seeds);
}

}  // namespace mcnb::bench
