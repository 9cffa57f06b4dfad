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
#include "mcnb/theory/kernel.h"

namespace mcnb {

struct TheoryOptions {
  std::uint64_t rounds = 200;  // T
  std::uint64_t seed = 1;
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  double radius = 10.0;       // R: networks within R / m^(1/4) of the start
  double delta = 0.1;
  std::uint64_t fit_steps = 300;
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

// S*, for one radius.
struct Difficulty {
  double radius = 0.0;  // R
  double loss = 0.0;
  double distance = 0.0;
  std::uint64_t steps = 0;
  bool converged = false;
};

// The quantities of the paper's analysis, measured on the arms of an environment. Where a bound
// hides constants they are 1.
struct TheoryStudy {
  TheoryOptions options;
  std::uint64_t users = 0;
  std::uint64_t contexts = 0;  // T K
  std::uint64_t distinct = 0;  // directions among them, which the kernel is about
  KernelFacts kernel;
  std::vector<KernelDistance> distances;
  std::vector<Difficulty> difficulties;  // radii ascending: R, and those of the lemma
  std::string policy;
  double regret = 0.0;                  // measured
  std::optional<double> mean_cluster;   // size; nothing where the policy does not cluster
  double clusters = 1.0;                // q: users over the mean size
  double paper_bound = 0.0;             // sqrt(q T S*) + sqrt(2 q T log(1 / delta))
  std::optional<double> single_bound;   // sqrt(d T) (S + sqrt(d)), one bandit; nothing without S
  std::optional<double> cluster_bound;  // the same for q clusters
  double naive_bound = 0.0;             // sqrt(n T)
  std::optional<double> lemma_bound;    // (sqrt(d) + S)^2 d, which S* should not exceed
};

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
