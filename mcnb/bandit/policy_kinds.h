#pragma once

#include <memory>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// Of an option that several of them have.
inline constexpr const char* kNonnegativeHelp =
    "whether an estimate below zero counts as zero, as where no reward is below";

// A policy as people choose it: what it is called, where it comes from, and how it is made.
struct PolicyKind {
  const char* name;
  const char* help;
  const char* paper;  // authors, title, where and when
  std::vector<OptionHelp> (*options)();
  // Every option with its value, given or not. Throws Error (kUsage) as `build` would, but for what
  // depends on the setup.
  OptionValues (*resolve)(const OptionValues& options);
  std::unique_ptr<Policy> (*build)(const OptionValues& options, const PolicySetup& setup);
};

// Every policy there is, each defined in its own file, where its rules are told.
PolicyKind club_policy();
PolicyKind cofiba_policy();
PolicyKind epsilon_greedy_policy();
PolicyKind kernelucb_policy();
PolicyKind linucb_policy();
PolicyKind locb_policy();
PolicyKind mcnb_policy();
PolicyKind neuau_policy();
PolicyKind neural_linear_policy();
PolicyKind neuralts_policy();
PolicyKind neuucb_ind_policy();
PolicyKind neuucb_one_policy();
PolicyKind random_policy();
PolicyKind sclub_policy();

}  // namespace mcnb
