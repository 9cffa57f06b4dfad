#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/evaluation_plot.h"
#include "mcnb/cli/log_input.h"
#include "mcnb/evaluate/evaluation.h"
#include "mcnb/evaluate/evaluation_report.h"

namespace mcnb {
namespace {

struct EvaluateFlags {
  LogFlags log;
  EvaluationOptions options;
  std::vector<std::string> estimators;
  std::vector<double> reward_range{0.0, 1.0};
  std::string format = "table";
  std::string output;
  TableFlags tables;
};

void print_tables(const Evaluation& evaluation, const TableFlags& flags) {
  TableView view(flags);
  view.show("log", log_table(evaluation));
  view.say("\n");
  if (!evaluation.slots.front().policies.empty()) {
    view.show("weights", weights_table(evaluation));
    view.say("\n");
  }
  view.show("estimates", estimates_table(evaluation, false));
  if (!evaluation.learning.empty()) {
    view.say("\n");
    view.show("learning", learning_table(evaluation));
  }
}

void write_files(const std::string& output, const Evaluation& evaluation) {
  const std::filesystem::path folder = output;
  write_file(folder / "estimates.csv", estimates_table(evaluation, true).csv());
  write_file(folder / "evaluation.json", evaluation_json(evaluation) + "\n");
  fmt::print(stderr, "numbers  {}, evaluation.json\n", (folder / "estimates.csv").string());
  try {
    draw_evaluation(folder, evaluation);
    fmt::print(stderr, "picture  {}, estimates.svg\n", (folder / "estimates.png").string());
  } catch (const Error& error) {
    fmt::print(stderr, "mcnb: no picture: {}\n", error.what());
  }
}

void run_evaluate(EvaluateFlags flags) {
  if (!flags.estimators.empty()) {
    flags.options.estimators.clear();
    for (const std::string& name : flags.estimators) {
      flags.options.estimators.push_back(parse_estimator(name));
    }
  }
  flags.options.lowest_reward = flags.reward_range[0];
  flags.options.highest_reward = flags.reward_range[1];
  if (!flags.output.empty()) {
    make_folder(flags.output);  // fails before the long computation
  }
  ThreadPool threads(0);
  std::string report;
  const Evaluation evaluation =
      evaluate_log([&](bool features,
                       const VisitRound& visit) { report = read_log(flags.log, features, visit); },
                   flags.options, threads);
  if (flags.format == "json" || flags.tables.json) {
    fmt::print("{}\n", evaluation_json(evaluation));
  } else if (flags.format == "csv") {
    fmt::print("{}", estimates_table(evaluation, true).csv());
  } else {
    print_tables(evaluation, flags.tables);
  }
  fmt::print(stderr, "\nread     {}\n", report);
  for (const std::string& warning : evaluation.warnings) {
    fmt::print(stderr, "warning  {}\n", warning);
  }
  if (!flags.output.empty()) {
    write_files(flags.output, evaluation);
  }
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Estimate from a log what other policies would have earned");
  add_log_flags(*command, flags->log);
  command
      ->add_option(
          "--policy", flags->options.policies,
          "random, first, action=ID, state=FILE[:epsilon=E], frequency=LOG, replay=POLICY or "
          "progressive=POLICY; several with commas")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--baseline", flags->options.baseline,
                   "What the policies are compared with: logged, or a policy that does not learn")
      ->capture_default_str();
  command
      ->add_option("--estimators", flags->estimators,
                   "ips, clipped-ips, snips, dm, dr, switch-dr, dros [all]")
      ->delimiter(',');
  command
      ->add_option("--reward-range", flags->reward_range,
                   "The least and the largest possible reward")
      ->expected(2)
      ->capture_default_str();
  command
      ->add_option("--dimension", flags->options.dimension, "Numbers that features are hashed to")
      ->check(CLI::Range(1, 16'383))
      ->capture_default_str();
  command
      ->add_option("--lambda", flags->options.lambda, "Regularisation of the models of the rewards")
      ->check(CLI::Range(1e-9, 1e9))
      ->capture_default_str();
  command->add_option("--replicates", flags->options.replicates, "Samples of the bootstrap")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "Of the bootstrap and of learning policies")
      ->capture_default_str();
  command->add_option("--format", flags->format, "table, json or csv, on the standard output")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  command->add_option("--output", flags->output,
                      "Folder for the numbers as CSV and JSON, and a picture");
  add_table_view_flags(*command, flags->tables);
  command->callback([flags] { run_evaluate(*flags); });
}

}  // namespace mcnb
