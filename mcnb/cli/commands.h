#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/cli/tables.h"

namespace mcnb {

inline constexpr int kFailure = 1;
inline constexpr int kInterrupted = 130;  // the exit code after Ctrl-C

// Adds a flag for every option of a table: --fit-steps for fit_steps. `values` receives the texts
// as they were typed.
void add_table_flags(CLI::App& command, const std::vector<OptionHelp>& options,
                     std::map<std::string, std::string>& values);
// Sets the options whose texts are not empty. Throws Error (kUsage) for bad values.
template <class Struct>
void set_from_flags(const OptionTable<Struct>& table,
                    const std::map<std::string, std::string>& values, Struct& options) {
  for (const auto& [name, text] : values) {
    if (!text.empty()) {
      table.set(options, name, text);
    }
  }
}

// The flag --device; `device` receives its text, "cpu" at first.
void add_device_flag(CLI::App& command, std::string& device);

// Each function adds one or more subcommands, which run when the command line is parsed.
void add_run_command(CLI::App& app);
void add_help_commands(CLI::App& app);  // policies, environments
void add_data_commands(CLI::App& app);  // data list, check, prepare, get
void add_theory_command(CLI::App& app);
void add_reproduce_commands(CLI::App& app);  // reproduce, report, results merge

// The file with the finished runs of an output folder.
inline constexpr const char* kResultsFile = "results.sqlite";
// The flag --results, and where finished runs are by its text: in the output folder if it is empty.
void add_results_flag(CLI::App& command, std::string& results);
std::string results_of(const std::string& results, const std::string& output);

// Runs the plan of a file, as `mcnb reproduce` does.
void run_plan_file(const std::string& path, const std::string& output, const std::string& results,
                   const std::string& data, bool fresh, const TableFlags& tables);

void add_serve_command(CLI::App& app);
void add_log_commands(CLI::App& app);  // log show, export
void add_train_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_bench_command(CLI::App& app);

}  // namespace mcnb
