#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/program_commands.h"
#include "mcnb/cli/tables.h"
#include "mcnb/cli/usage.h"
#include "mcnb/numeric/kernels.h"

namespace {

constexpr int kBadUsage = 2;

void say_error(const std::string& text) {
  fmt::print(stderr, "{} {}\n", mcnb::painted("mcnb:", mcnb::Ink::kRed, STDERR_FILENO), text);
}

int run(int argc, char** argv) {
  CLI::App app("Clustered neural contextual bandits.", "mcnb");
  app.require_subcommand(1);
  app.set_version_flag("--version", MCNB_VERSION);
  app.footer(
      "Environment: MCNB_SIMD=avx512|avx2|sse4|plain chooses the instruction set (default: the\n"
      "best of this machine); MCNB_SIMD_LIMIT=avx2 hides the better ones, for tests.");
  mcnb::add_run_command(app);
  mcnb::add_help_commands(app);
  mcnb::add_data_commands(app);
  mcnb::add_reproduce_commands(app);
  mcnb::add_theory_command(app);
  mcnb::add_serve_command(app);
  mcnb::add_log_commands(app);
  mcnb::add_train_command(app);
  mcnb::add_evaluate_command(app);
  mcnb::add_bench_command(app);
  mcnb::add_program_commands(app);
  mcnb::accept_powers_of_ten(app);
  mcnb::refuse_unknown_flags(app, {argv + 1, argv + argc});
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // the command has printed its message and chosen the status
  } catch (const CLI::RequiredError& error) {
    const CLI::App* deepest = &app;
    while (!deepest->get_subcommands().empty()) {
      deepest = deepest->get_subcommands().front();
    }
    const std::vector<std::string> rest = deepest->remaining();
    if (rest.empty()) {
      return app.exit(error) == 0 ? 0 : kBadUsage;
    }
    say_error(
        fmt::format("expected a command, got \"{}\"{}", rest.front(),
                    mcnb::advice(mcnb::nearest_word(rest.front(), mcnb::subcommand_names(*deepest)),
                                 deepest == &app ? "mcnb" : "mcnb " + deepest->get_name())));
    return kBadUsage;
  } catch (const CLI::ParseError& error) {
    // Help and version end here too, with success.
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    mcnb::kernels::use_simd_settings(std::getenv("MCNB_SIMD_LIMIT"), std::getenv("MCNB_SIMD"));
    return run(argc, argv);
  } catch (const mcnb::Error& error) {
    say_error(error.what());
    return error.kind() == mcnb::ErrorKind::kUsage ? kBadUsage : mcnb::kFailure;
  } catch (const std::exception& error) {
    say_error(error.what());
    return mcnb::kFailure;
  }
}
