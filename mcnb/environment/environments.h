#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcnb/environment/data_settings.h"
#include "mcnb/environment/environment.h"

namespace mcnb {

class DataSource;

/// What the environments of data sets read their data through. Environments that share one object
/// share the data too. May be used from many threads.
std::shared_ptr<DataSource> make_data_source(DataSettings settings);

/// An environment by name with its options.
struct EnvironmentSpec {
  std::string name = "synthetic";
  OptionValues options = {};
  std::shared_ptr<DataSource> data = {};  ///< required by environments of data sets
};

struct EnvironmentHelp {
  std::string name;
  std::string help;
  std::vector<OptionHelp> options;
};
std::vector<EnvironmentHelp> environment_help();

/// Every option with its value, default or given. Throws Error (kUsage) for an unknown
/// environment or option, and for a value out of its range.
OptionValues all_options(const EnvironmentSpec& spec);

/// True if the arms are classes of labelled samples. Throws Error (kUsage) for an unknown
/// environment.
bool is_classification(const EnvironmentSpec& spec);

/// Identifies the files of an environment, in any folder, so that results from other files can be
/// told apart: their names and checksums; for a folder, a checksum of the names and sizes below it.
/// Empty for the synthetic world. Throws Error (kInput) if files are missing.
std::string source_text(const EnvironmentSpec& spec);

/// Throws what all_options throws; also Error: kUsage for options that contradict each other,
/// kInput if the data set's files are missing or wrong.
std::unique_ptr<Environment> make_environment(const EnvironmentSpec& spec, std::uint64_t seed);

}  // namespace mcnb
