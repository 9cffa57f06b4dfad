#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/environment/environments.h"
#include "mcnb/experiment/run/cluster_quality.h"

namespace mcnb {

/// One run: one policy in one environment with one seed.
struct Cell {
  EnvironmentSpec environment;
  PolicySpec policy;
  std::uint64_t seed = 1;
  std::uint64_t rounds = 0;
};

/// The regret of all rounds up to and including `round`. Rounds count from 1.
struct RegretPoint {
  std::uint64_t round = 0;
  double regret = 0.0;
  bool operator==(const RegretPoint&) const = default;
};

struct QualityPoint {
  std::uint64_t round = 0;
  ClusterQuality quality;  ///< of the policy's cluster for the arm that it chose
};

struct CellResult {
  std::string policy;  ///< its label
  std::uint64_t seed = 0;
  std::uint64_t rounds = 0;
  std::vector<RegretPoint> curve;     ///< at most kCurvePoints, the last of them at the last round
  std::vector<QualityPoint> quality;  ///< empty unless policy and environment know clusters
  double regret = 0.0;   ///< sum of the best expected reward less that of the choice: pseudo-regret
  double reward = 0.0;   ///< sum of the rewards as the policy saw them
  double seconds = 0.0;  ///< in choose and learn
  std::optional<PartSeconds>
      parts;  ///< of these seconds; nullopt if the policy does not measure them
  StepCounts steps;
  std::size_t memory_bytes = 0;
};

inline constexpr std::uint64_t kCurvePoints = 500;
inline constexpr std::uint64_t kQualityPoints = 200;

/// For another thread, to watch and stop runs.
struct RunControl {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> rounds_done{0};
};

/// What a policy has to know about its environment. Borrows the threads and the users' features.
PolicySetup setup_for(const Environment& environment, std::uint64_t seed, ThreadPool& threads);

/// The highest expected reward among the arms of `round`, which must be the environment's current
/// round.
double best_expected_reward(const Environment& environment, const Round& round);

/// Gives the policy the environment's start data, then plays the rounds. The caller fills in the
/// policy's label and the seed. Returns nullopt if `control` stopped it.
std::optional<CellResult> play(Environment& environment, Policy& policy, std::uint64_t rounds,
                               RunControl& control);

/// Makes environment and policy, and plays. The policy computes on the calling thread alone. Throws
/// what they throw, without naming the cell; cell_text names it.
std::optional<CellResult> run_cell(const Cell& cell, RunControl& control,
                                   Device device = Device::kCpu);

/// "mcnb:gamma=0.2, seed 3": a cell, for error messages.
std::string cell_text(const Cell& cell);

}  // namespace mcnb
