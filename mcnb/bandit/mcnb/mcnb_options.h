#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/bandit/neural/network_options.h"
#include "mcnb/bandit/neural/replay_options.h"
#include "mcnb/base/options.h"

namespace mcnb {

enum class MetaDraw { kOne, kAll };         // what a member contributes to a step of an adaptation
enum class Feedback { kCluster, kServed };  // who learns from a reward
enum class Normalise { kNone, kUnit };      // what is done to the length of arms
enum class Scan { kAll, kSampled };         // which learners a decision evaluates

// Every choice that Meta Clustering of Neural Bandits leaves open. The defaults are those of the
// preset `algorithm`: the paper's algorithms to the letter.
struct McnbOptions {
  double gamma = 0.4;  // users agree if their estimates differ by at most gamma (nu - 1)/nu
  double nu = 5.0;
  double s = 1.0;            // S: bound of the reward functions' norm, in the user-side bonus
  double delta = 0.1;        // one minus the confidence
  double eta_1 = 0.05;       // learning rate of the user-learners
  double eta_2 = 0.05;       // learning rate of the meta-learner
  double exploration = 1.0;  // factor of the whole bonus
  bool nonnegative = false;  // whether an estimate below zero counts as zero
  NetworkOptions network;
  Normalise normalise = Normalise::kNone;

  Scan scan = Scan::kAll;
  std::uint64_t scan_limit = 0;  // sampled: learners that are evaluated for a round; 0: all

  std::uint64_t meta_samples = 0;  // members that take part in a step of an adaptation; 0: all
  std::uint64_t meta_steps = 1;    // of an adaptation
  MetaDraw meta_draw = MetaDraw::kOne;
  Feedback feedback = Feedback::kCluster;
  TrainingMode training = TrainingMode::kOnline;
  ReplayOptions replay;
  std::uint64_t user_steps = 500;    // replay: at most, in one training of a user-learner
  std::uint64_t theta_steps = 1000;  // replay: at most, in one training of the meta-learner

  std::uint64_t history_limit = 0;  // events a user remembers; 0: all
  std::uint64_t keep_arms = 0;      // arms that f(x; Theta) selects for a closer look; 0: all
  std::uint64_t pre_clusters = 0;   // groups of users, by their features, that act as one; 0: none
};

// A set of values by its name: "algorithm", "experiments", "default", "default-classification".
// Throws Error (kUsage) that lists these names if there is no such preset.
McnbOptions mcnb_preset(const std::string& name);

// Takes the values of the option "preset" (default: "default"), then sets the others. Throws Error
// (kUsage).
McnbOptions parse_mcnb_options(const OptionValues& values);
// Throws Error (kUsage) naming the option that is out of its range, and the value.
void check_mcnb_options(const McnbOptions& options);
// Every option except "preset", with its value.
OptionValues resolve_mcnb_options(const OptionValues& values);
std::vector<OptionHelp> mcnb_option_help();

}  // namespace mcnb
