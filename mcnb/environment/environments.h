#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcnb/environment/environment.h"

namespace mcnb {

class DataSource;

// An environment by name with its options.
struct EnvironmentSpec {
  std::string name = "synthetic";
  OptionValues options;
  std::shared_ptr<DataSource> data;  // where data sets come from; null: from nowhere
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

// Whether its arms are classes of labelled samples. Throws Error (kUsage) for an unknown one.
bool is_classification(const EnvironmentSpec& spec);

// What identifies the files behind an environment of a data set, so that results made from others
// are told apart wherever the files lie: names and checksums, of a folder those of the names and
// sizes below it. Empty for the synthetic world. Throws Error (kInput) where files are missing.
std::string source_text(const EnvironmentSpec& spec);

// Throws as all_options does, and for options that contradict each other; Error (kInput) where the
// data set's files are missing or bad.
std::unique_ptr<Environment> make_environment(const EnvironmentSpec& spec, std::uint64_t seed);

}  // namespace mcnb
