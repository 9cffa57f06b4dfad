#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcnb/environment/environment.h"

namespace mcnb {

// An environment by name with its options.
struct EnvironmentSpec {
  std::string name = "synthetic";
  OptionValues options;
};

struct EnvironmentHelp {
  std::string name;
  std::string help;
  std::vector<OptionHelp> options;
};
std::vector<EnvironmentHelp> environment_help();

// Every option with its value, whether given or not. Throws Error (kUsage) for an unknown
// environment or option, and for a value out of its range.
OptionValues all_options(const EnvironmentSpec& spec);

// Throws as all_options does, and for options that contradict each other.
std::unique_ptr<Environment> make_environment(const EnvironmentSpec& spec, std::uint64_t seed);

}  // namespace mcnb
