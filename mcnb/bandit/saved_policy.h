#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"

namespace mcnb {

// What a policy that learned from a log needs to go on with it.
struct TrainingMemory {
  std::vector<std::string> users;  // their names in the log, by number; empty: they have none
  std::uint64_t next_round = 0;    // the round id that is free
};

// A policy as save_policy_file or save_trained_policy wrote it, made with the options and the setup
// of the file.
struct SavedPolicy {
  PolicySpec spec;
  PolicySetup setup;
  std::unique_ptr<Policy> policy;
  TrainingMemory memory;
};

// What save_policy_file writes, with this memory instead of an empty one.
void save_trained_policy(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                         const Policy& policy, const TrainingMemory& memory);

// True for a file that load_saved_policy may read, judged by its first bytes.
bool is_policy_file(const std::string& path);

// Borrows the threads. Throws Error: kUsage for a policy that knows its users' features, which the
// file does not hold; kCorrupt for damage.
SavedPolicy load_saved_policy(const std::string& path, ThreadPool& threads);

}  // namespace mcnb
