#pragma once

#include <CLI/CLI.hpp>

namespace mcnb {

// Each adds one subcommand, which runs when the command line is parsed.
void add_bench_command(CLI::App& app);

}  // namespace mcnb
