#pragma once

#include <memory>
#include <string>

#include "mcnb/bandit/policies.h"

namespace mcnb {

// A policy as save_policy_file wrote it, made with the options and the setup of the file.
struct SavedPolicy {
  PolicySpec spec;
  PolicySetup setup;
  std::unique_ptr<Policy> policy;
};

// Borrows the threads. Throws Error: kUsage for a policy that knows its users' features, which the
// file does not hold; kCorrupt for damage.
SavedPolicy load_saved_policy(const std::string& path, ThreadPool& threads);

}  // namespace mcnb
