#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/options.h"
#include "mcnb/base/text_table.h"
#include "mcnb/environment/environments.h"
#include "mcnb/theory/bounds.h"
#include "mcnb/theory/kernel.h"

namespace mcnb {

struct TheoryOptions {
  std::uint64_t rounds = 0;  // T; 0: as many as give 2,000 contexts
  std::uint64_t seed = 1;
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  double radius = 10.0;       // R: networks within R / m^(1/4) of the start
  double delta = 0.1;
  std::uint64_t fit_steps = 0;  // most evaluations of the loss for each S*; 0: limited by work
  std::uint64_t widest = 4096;  // widest network whose gradients are compared with the kernel
  std::uint64_t threads = 0;
};
const OptionTable<TheoryOptions>& theory_option_table();

// How far the gradients of one random network are from the kernel, in the Frobenius norm.
struct KernelDistance {
  std::uint64_t width = 0;
  double distance = 0.0;
  double relative = 0.0;  // to the norm of the kernel
};

// S*: the least loss that was found in the ball of one radius.
struct Difficulty {
  double radius = 0.0;  // R
  double loss = 0.0;
  double distance = 0.0;          // from the start to the network with this loss
  std::uint64_t evaluations = 0;  // of the loss
  bool converged = false;         // false: the search was stopped, the loss is an upper estimate
};

// The regret and the clusters of a policy.
struct Measured {
  double regret = 0.0;
  std::optional<double> mean_cluster;  // mean size; nullopt if the policy does not cluster
};

// The quantities of the paper's analysis, measured on the arms of an environment.
struct TheoryStudy {
  TheoryOptions options;
  std::string environment;
  std::uint64_t users = 0;
  std::uint64_t contexts = 0;  // T K
  std::uint64_t distinct = 0;  // directions among the contexts
  Difficulty difficulty;       // S* of all contexts for R, as in the paper's bound
  // The lemma requires a kernel that is not singular. So these are the facts of the kernel of the
  // distinct contexts, each with its mean reward.
  KernelFacts kernel;
  std::vector<KernelDistance> distances;
  Difficulty lemma_difficulty;  // S* of the distinct contexts for the lemma's radius, T^(3/2)
  std::string policy;
  Measured measured;
  double clusters = 1.0;  // q: users divided by the mean cluster size
  Bounds bounds;
};

// Gives the policy the start data, then plays the rounds.
Measured measure_policy(Environment& environment, Policy& policy, std::uint64_t rounds);

// Measures everything. Throws Error (kUsage) for options out of range and for too many contexts,
// and what making the environment and the policy throws.
TheoryStudy study_theory(const EnvironmentSpec& environment, const PolicySpec& policy,
                         const TheoryOptions& options);

// Tables for people.
TextTable theory_table(const TheoryStudy& study);
TextTable kernel_table(const TheoryStudy& study);

// Draws the distance to the kernel against the width, <folder>/kernel.png and .svg.
void draw_kernel_plot(const std::filesystem::path& folder, const TheoryStudy& study);

}  // namespace mcnb
