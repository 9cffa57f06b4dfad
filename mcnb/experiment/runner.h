#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/environment/environments.h"
#include "mcnb/experiment/cluster_quality.h"

namespace mcnb {

// One policy in one environment with one seed: the smallest piece of an experiment.
struct Cell {
  EnvironmentSpec environment;
  PolicySpec policy;
  std::uint64_t seed = 1;
  std::uint64_t rounds = 0;
};

// The regret of all rounds up to and including `round`, counted from 1.
struct RegretPoint {
  std::uint64_t round = 0;
  double regret = 0.0;
  bool operator==(const RegretPoint&) const = default;
};

struct QualityPoint {
  std::uint64_t round = 0;
  ClusterQuality quality;  // of the policy's cluster for the arm that it chose
};

struct CellResult {
  std::string policy;  // its label
  std::uint64_t seed = 0;
  std::uint64_t rounds = 0;
  std::vector<RegretPoint> curve;     // at most kCurvePoints, and the last round
  std::vector<QualityPoint> quality;  // empty where policy or environment know no clusters
  double regret = 0.0;   // sum of the best expected reward less that of the choice: pseudo-regret
  double reward = 0.0;   // sum of the rewards as the policy saw them
  double seconds = 0.0;  // in choose and learn
  StepCounts steps;
  std::size_t memory_bytes = 0;
};

inline constexpr std::uint64_t kCurvePoints = 500;
inline constexpr std::uint64_t kQualityPoints = 200;

// Watches and stops runs from another thread.
struct RunControl {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> rounds_done{0};
};

// What a policy has to know of the environment it plays in. The threads are borrowed, and so are
// the users' features.
PolicySetup setup_for(const Environment& environment, std::uint64_t seed, ThreadPool& threads);

// Of the arms of this round, the one made last.
double best_expected_reward(const Environment& environment, const Round& round);

// Serves the policy the environment's start data, then lets it play. Fills everything but the label
// and the seed. Nothing when it was stopped.
std::optional<CellResult> play(Environment& environment, Policy& policy, std::uint64_t rounds,
                               RunControl& control);

// Makes environment and policy, and plays. The policy computes on the calling thread alone.
std::optional<CellResult> run_cell(const Cell& cell, RunControl& control);

}  // namespace mcnb
