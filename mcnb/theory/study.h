#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/options.h"
#include "mcnb/base/table.h"
#include "mcnb/environment/environments.h"
#include "mcnb/theory/bounds.h"
#include "mcnb/theory/kernel.h"

namespace mcnb {

struct TheoryOptions {
  std::uint64_t rounds = 0;  // T; 0: as many as have 2,000 contexts
  std::uint64_t seed = 1;
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  double radius = 10.0;       // R: networks within R / m^(1/4) of the start
  double delta = 0.1;
  std::uint64_t fit_steps = 0;  // most evaluations of the loss for each S*; 0: by their work
  std::uint64_t widest = 4096;  // network whose gradients are compared with the kernel
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
  double distance = 0.0;          // from the start to the network that has it
  std::uint64_t evaluations = 0;  // of the loss
  bool converged = false;         // false: an upper estimate, the search was stopped
};

// What a policy did in an environment's rounds.
struct Measured {
  double regret = 0.0;
  std::optional<double> mean_cluster;  // size; nothing where the policy does not cluster
};

// The quantities of the paper's analysis, measured on the arms of an environment.
struct TheoryStudy {
  TheoryOptions options;
  std::string environment;
  std::uint64_t users = 0;
  std::uint64_t contexts = 0;  // T K
  std::uint64_t distinct = 0;  // directions among them
  Difficulty difficulty;       // of all contexts, for R: that of the paper's bound
  // The lemma supposes a kernel that is not singular: what it is about is that of the distinct
  // contexts, each with the mean of its rewards.
  KernelFacts kernel;
  std::vector<KernelDistance> distances;
  Difficulty lemma_difficulty;  // for the lemma's radius, T^(3/2)
  std::string policy;
  Measured measured;
  double clusters = 1.0;  // q: users over the mean size
  Bounds bounds;
};

// Lets the policy play, from its start data on.
Measured measure_policy(Environment& environment, Policy& policy, std::uint64_t rounds);

// Throws Error (kUsage) for options out of range and for more contexts than memory is meant for;
// what making the environment and the policy throws.
TheoryStudy study_theory(const EnvironmentSpec& environment, const PolicySpec& policy,
                         const TheoryOptions& options);

// What people read.
Table theory_table(const TheoryStudy& study);
Table kernel_table(const TheoryStudy& study);

// Draws the distance to the kernel against the width, <folder>/kernel.png and .svg.
void draw_kernel_plot(const std::filesystem::path& folder, const TheoryStudy& study);

}  // namespace mcnb
