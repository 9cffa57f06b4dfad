#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "mcnb/base/options.h"

namespace mcnb {

inline constexpr int kFailure = 1;
inline constexpr int kInterrupted = 130;  // the exit code after Ctrl-C

// Flags for the options of a table, as they were typed: --fit-steps for fit_steps. The table reads
// and checks those that are not empty.
void add_table_flags(CLI::App& command, const std::vector<OptionHelp>& options,
                     std::map<std::string, std::string>& values);
template <class Struct>
void set_from_flags(const OptionTable<Struct>& table,
                    const std::map<std::string, std::string>& values, Struct& options) {
  for (const auto& [name, text] : values) {
    if (!text.empty()) {
      table.set(options, name, text);
    }
  }
}

// Each adds one subcommand, which runs when the command line is parsed.
void add_run_command(CLI::App& app);
void add_help_commands(CLI::App& app);  // policies, environments
void add_data_commands(CLI::App& app);  // data list, check, prepare, get
void add_theory_command(CLI::App& app);
void add_reproduce_commands(CLI::App& app);  // reproduce, report, results merge

// The finished runs of an output folder.
inline constexpr const char* kResultsFile = "results.sqlite";

// Runs a plan of its own, as `mcnb reproduce` does the paper's.
void run_plan_file(const std::string& path, const std::string& output, const std::string& data,
                   bool fresh);

void add_serve_command(CLI::App& app);
void add_bench_command(CLI::App& app);

}  // namespace mcnb
