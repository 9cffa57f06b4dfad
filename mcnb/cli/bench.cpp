#include <memory>

#include "bench/breakdown.h"
#include "bench/networks.h"
#include "mcnb/cli/commands.h"

namespace mcnb {
namespace {

// The library would read -1 as the largest number there is.
CLI::Validator not_negative() {
  return {[](std::string& text) {
            return text.starts_with('-') ? "expected a whole number, got " + text : std::string();
          },
          ""};
}

void add_networks(CLI::App& bench) {
  auto options = std::make_shared<bench::NetworkBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "networks", "Evaluate and train many networks; compare with the machine and with PyTorch");
  command->add_option("--users", options->users, "Numbers of networks")
      ->delimiter(',')
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--features", options->features, "Numbers of features")
      ->delimiter(',')
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--width", options->width, "Hidden units")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--arms", options->arms, "Arms of a round")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads, ours and the peer's")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Time for each measurement")
      ->capture_default_str();
  command->add_flag_callback(
      "--no-peer", [options] { options->peer = false; }, "Leave PyTorch out");
  command->add_option("--peer-users", options->peer_users, "PyTorch is timed up to so many users")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  command->callback([options] { bench::bench_networks(*options); });
}

void add_breakdown(CLI::App& bench) {
  auto options = std::make_shared<bench::BreakdownOptions>();
  CLI::App* command = bench.add_subcommand(
      "breakdown", "Time the parts of a round of M-CNB, beside the paper and PyTorch");
  command->add_option("--users", options->users, "Numbers of users")
      ->delimiter(',')
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--meta-samples", options->meta_samples, "Members that adapt; 0: all")
      ->delimiter(',')
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads, ours and the peer's")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Rounds timed in every case")
      ->check(not_negative())
      ->capture_default_str();
  command
      ->add_option("--experiment-rounds", options->experiment_rounds,
                   "Rounds of preset experiments; 0 leaves it out")
      ->check(not_negative())
      ->capture_default_str();
  command->add_flag_callback(
      "--no-peer", [options] { options->peer = false; }, "Leave PyTorch out");
  command->add_option("--peer-users", options->peer_users, "PyTorch is timed up to so many users")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  command->callback([options] { bench::bench_breakdown(*options); });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory");
  bench->require_subcommand(1);
  add_networks(*bench);
  add_breakdown(*bench);
}

}  // namespace mcnb
