#include "mcnb/experiment/run/runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// True for every step-th round, counted from 1.
bool is_due(std::uint64_t round, std::uint64_t step) { return round % step == 0; }

void measure_quality(const Environment& environment, Policy& policy, const Arm& arm,
                     std::uint64_t round, std::vector<QualityPoint>& quality) {
  if (const std::optional<std::vector<UserId>> found = policy.cluster(arm)) {
    const std::vector<UserId> truth = environment.true_cluster(arm.index);
    if (!truth.empty()) {
      quality.push_back({round, compare_clusters(*found, truth, environment.user_count())});
    }
  }
}

}  // namespace

double best_expected_reward(const Environment& environment, const Round& round) {
  double best = -std::numeric_limits<double>::infinity();  // rewards may be below zero
  for (const Arm& arm : round.arms) {
    best = std::max(best, environment.expected_reward(arm.index));
  }
  return best;
}

PolicySetup setup_for(const Environment& environment, std::uint64_t seed, ThreadPool& threads) {
  return {.inputs = environment.inputs(),
          .users = environment.user_count(),
          .seed = seed,
          .threads = &threads,
          .user_features = environment.user_features(),
          .user_feature_count = environment.user_feature_count(),
          .block_length = environment.block_length()};
}

std::optional<CellResult> play(Environment& environment, Policy& policy, std::uint64_t rounds,
                               RunControl& control) {
  check(rounds > 0, "a run has rounds");
  const std::uint64_t curve_step = (rounds + kCurvePoints - 1) / kCurvePoints;
  const std::uint64_t quality_step = std::max<std::uint64_t>(1, rounds / kQualityPoints);
  CellResult result{.rounds = rounds};
  for (const StartDatum& datum : environment.start_data()) {
    policy.start(datum.user, datum.sample);
  }
  for (std::uint64_t t = 1; t <= rounds; ++t) {
    if (control.stop.load(std::memory_order_relaxed)) {
      return std::nullopt;
    }
    const Round& round = environment.next_round();
    const Clock::time_point choosing = Clock::now();
    const ArmIndex arm = policy.choose(round);
    result.seconds += seconds_since(choosing);

    check(index(arm) < round.arms.size(), "a policy chooses one of the arms");
    if (environment.knows_clusters() && is_due(t, quality_step)) {
      measure_quality(environment, policy, round.arms[index(arm)], t, result.quality);
    }
    const float reward = environment.reward(arm);

    const Clock::time_point learning = Clock::now();
    policy.learn(round.id, round.arms[index(arm)], reward);
    result.seconds += seconds_since(learning);

    result.reward += static_cast<double>(reward);
    result.regret += best_expected_reward(environment, round) - environment.expected_reward(arm);
    if (is_due(t, curve_step) || t == rounds) {
      result.curve.push_back({t, result.regret});
    }
    control.rounds_done.fetch_add(1, std::memory_order_relaxed);
  }
  result.parts = policy.part_seconds();
  result.steps = policy.steps();
  result.memory_bytes = policy.memory_bytes();
  return result;
}

std::optional<CellResult> run_cell(const Cell& cell, RunControl& control, Device device) {
  const std::unique_ptr<Environment> environment = make_environment(cell.environment, cell.seed);
  ThreadPool one_thread(1);
  PolicySetup setup = setup_for(*environment, cell.seed, one_thread);
  setup.device = device;
  const std::unique_ptr<Policy> policy = make_experiment_policy(cell.policy, setup, *environment);
  std::optional<CellResult> result = play(*environment, *policy, cell.rounds, control);
  if (result) {
    result->policy = cell.policy.label;
    result->seed = cell.seed;
  }
  return result;
}

std::string cell_text(const Cell& cell) {
  return fmt::format("{}, seed {}", cell.policy.label, cell.seed);
}

}  // namespace mcnb
