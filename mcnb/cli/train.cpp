#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/log_input.h"
#include "mcnb/cli/progress.h"
#include "mcnb/evaluate/log_training.h"

namespace mcnb {
namespace {

struct TrainFlags {
  LogFlags log;
  std::string policy = "hierarchical";
  std::string start;
  std::string output;
  std::uint64_t passes = 1;
  LogTrainingOptions options;
};

LogTraining make_training(const TrainFlags& flags, ThreadPool& threads) {
  LogTrainingOptions options = flags.options;
  if (!flags.start.empty()) {
    return {load_saved_policy(flags.start, threads), options, threads};
  }
  options.policy = parse_policy(flags.policy);
  return {std::move(options), threads};
}

// Exits as after any Ctrl-C. What whole passes learned is on disk.
[[noreturn]] void end_interrupted_training(const TrainFlags& flags, std::uint64_t pass) {
  const std::string kept = pass > 1
                               ? fmt::format("{} has the {} passes before", flags.output, pass - 1)
                               : fmt::format("{} was not written", flags.output);
  fmt::print(stderr, "mcnb: interrupted in pass {}: {}\n", pass, kept);
  throw CLI::RuntimeError(kInterrupted);
}

void run_train(const TrainFlags& flags) {
  const std::filesystem::path folder = std::filesystem::path(flags.output).parent_path();
  if (!folder.empty()) {
    make_folder(folder);  // fails before the long computation
  }
  ThreadPool threads(0);
  LogTraining training = make_training(flags, threads);
  RunControl control;
  const InterruptHandler interrupts(control);
  LogDisplay display(flags.passes);
  std::string report;
  for (std::uint64_t pass = 1; pass <= flags.passes; ++pass) {
    display.begin_pass(pass);
    const bool whole = training.pass(
        [&](bool features, const VisitRound& visit) {
          report = read_log(flags.log, features, visit);
        },
        [&](const TrainingCounts& counts) {
          display.show(counts.rounds);
          return !control.stop.load(std::memory_order_relaxed);
        });
    if (!whole) {
      display.end(training.counts().rounds);
      end_interrupted_training(flags, pass);
    }
    training.save(flags.output);
  }
  const TrainingCounts& counts = training.counts();
  display.end(counts.rounds);
  fmt::print(stderr, "read     {}\n", report);
  fmt::print("{} rounds learned", counts.rounds);
  if (counts.lessons != counts.rounds) {
    fmt::print(" as {} by their weights", counts.lessons);
  }
  fmt::print(", {} excluded, {} without a reward; {} users; saved as {}\n", counts.excluded,
             counts.unrewarded, training.user_count(), flags.output);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Teach a policy a log, and save it");
  add_log_flags(*command, flags->log);
  CLI::Option* policy =
      command->add_option("--policy", flags->policy, "With its options; see mcnb policies")
          ->capture_default_str();
  command
      ->add_option("--start", flags->start, "A policy that was saved before, to go on from there")
      ->check(CLI::ExistingFile)
      ->excludes(policy);
  command->add_option("--output", flags->output, "The file of the trained policy")->required();
  command->add_option("--passes", flags->passes, "How often the log is learned")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_flag("--weighted", flags->options.weights.importance,
                 "Learn every reward as often as its importance weight says, as if all actions had "
                 "been equally likely")
      ->capture_default_str();
  command->add_option("--most-weight", flags->options.weights.most, "Cuts the weights")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--dimension", flags->options.dimension, "Numbers that features are hashed to")
      ->check(CLI::Range(1, 16'383))
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "Of the policy and the weights")
      ->capture_default_str();
  command->footer(
      "The file is written after each pass, so after Ctrl-C it has the last whole one. It can be\n"
      "evaluated (mcnb evaluate --policy state=FILE), loaded in Python (mcnb.Bandit.load), and\n"
      "trained further (--start FILE).");
  command->callback([flags] { run_train(*flags); });
}

}  // namespace mcnb
