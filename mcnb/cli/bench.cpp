#include <memory>

#include "bench/networks.h"
#include "mcnb/cli/commands.h"

namespace mcnb {
namespace {

void add_networks(CLI::App& bench) {
  auto options = std::make_shared<bench::NetworkBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "networks", "Evaluate and train many networks; compare with the machine and with PyTorch");
  command->add_option("--users", options->users, "Numbers of networks")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--features", options->features, "Numbers of features")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--width", options->width, "Hidden units")->capture_default_str();
  command->add_option("--arms", options->arms, "Arms of a round")->capture_default_str();
  command->add_option("--threads", options->threads, "Threads, ours and the peer's")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Time for each measurement")
      ->capture_default_str();
  command->add_flag("!--no-peer", options->peer, "Leave PyTorch out");
  command->add_option("--output", options->output, "Folder for the results")
      ->capture_default_str();
  command->callback([options] { bench::bench_networks(*options); });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory");
  bench->require_subcommand(1);
  add_networks(*bench);
}

}  // namespace mcnb
