#pragma once

#include <CLI/CLI.hpp>

namespace mcnb {

// Each adds one subcommand, which runs when the command line is parsed.
void add_run_command(CLI::App& app);
void add_help_commands(CLI::App& app);  // policies, environments
void add_data_commands(CLI::App& app);  // data list, check, prepare, get
void add_bench_command(CLI::App& app);

}  // namespace mcnb
