#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/evaluation_plot.h"
#include "mcnb/cli/log_input.h"
#include "mcnb/evaluate/column_evaluation.h"
#include "mcnb/evaluate/evaluation.h"
#include "mcnb/evaluate/evaluation_report.h"
#include "mcnb/evaluate/readers/column_reader.h"
#include "mcnb/experiment/report/kept_section.h"
#include "mcnb/experiment/results/plain_labels.h"
#include "mcnb/serve/store_log.h"

namespace mcnb {
namespace {

struct EvaluateFlags {
  LogFlags log;
  EvaluationOptions options;
  std::vector<std::string> estimators;
  std::vector<double> reward_range{0.0, 1.0};
  std::string model = "ridge";
  std::string format = "table";
  std::string output;
  TableFlags tables;
};

// A table that has the policy's probabilities needs no policies.
bool has_policy_table(const LogFlags& log) {
  if (is_store(log.path)) {
    return false;
  }
  const Input input = Input::file(log.path);
  std::string start(4096, '\0');
  start.resize(input.open()->read(start.data(), start.size()));
  return is_policy_table(start.substr(0, start.find('\n')));
}

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

// Writes a table for people as LaTeX and the section, and for machines as CSV.
void add_table(const std::filesystem::path& folder, const std::string& name,
               const std::string& caption, const TextTable& people, const TextTable& machines,
               Section& section) {
  write_file(folder / (name + ".csv"), machines.csv());
  write_file(folder / (name + ".tex"), booktabs(people));
  section.tables.push_back({name, caption, people});
}

// The files of an evaluation are also a section of the page that `mcnb report` makes of the folder
// above.
void write_files(const EvaluateFlags& flags, const Evaluation& evaluation) {
  const std::filesystem::path folder =
      std::filesystem::absolute(flags.output + "/").lexically_normal().parent_path();
  Section section{.name = folder.filename().string(),
                  .title = "What other policies would have earned: " +
                           std::filesystem::path(flags.log.path).filename().string()};
  section.notes = evaluation.warnings;
  const TextTable log = log_table(evaluation);
  add_table(folder, "log", "What the log can answer", log, log, section);
  if (!evaluation.slots.front().policies.empty()) {
    const TextTable weights = weights_table(evaluation);
    add_table(folder, "weights", "How often each policy agrees with the log", weights, weights,
              section);
  }
  const TextTable estimates = estimates_table(evaluation, false);
  add_table(folder, "estimates",
            "Values of policies, with 95 % intervals; differences from " + flags.options.baseline,
            estimates, estimates_table(evaluation, true), section);
  if (!evaluation.learning.empty()) {
    const TextTable learning = learning_table(evaluation);
    add_table(folder, "learning", "Policies that learned from the log as it went", learning,
              learning, section);
  }
  write_file(folder / "evaluation.json", evaluation_json(evaluation) + "\n");
  fmt::print(stderr, "numbers  {}, evaluation.json\n", (folder / "estimates.csv").string());
  try {
    draw_evaluation(folder, evaluation);
    section.pictures.push_back({"estimates",
                                "Estimated values, with 95 % bootstrap intervals, or with their "
                                "errors if they have a bias"});
    fmt::print(stderr, "picture  {}, .svg, .pdf, -latex.tex\n",
               (folder / "estimates.png").string());
    if (draw_weights(folder, evaluation)) {
      section.pictures.push_back({"weight-shares",
                                  "Weights of the rounds: few rounds with large weights decide an "
                                  "estimate"});
      fmt::print(stderr, "picture  {}, .svg, .pdf, -latex.tex\n",
                 (folder / "weight-shares.png").string());
    }
  } catch (const Error& error) {
    fmt::print(stderr, "mcnb: no picture: {}\n", error.what());
  }
  keep_section(folder.parent_path(), section);
}

Evaluation evaluation_of(const EvaluateFlags& flags, std::string& report) {
  if (has_policy_table(flags.log)) {
    if (!flags.options.policies.empty() || flags.options.baseline != "logged") {
      throw Error(ErrorKind::kUsage,
                  "--policy, --baseline: expected none, as the column policy_probability of the "
                  "table says what the policy does");
    }
    ColumnEvaluation found =
        evaluate_columns(Input::file(flags.log.path), flags.options, flags.log.skip_bad);
    report = fmt::format("{} rows; left out: {} damaged lines", found.evaluation.log.rounds,
                         found.skipped);
    return std::move(found.evaluation);
  }
  if (flags.options.policies.empty()) {
    throw Error(ErrorKind::kUsage, "--policy is required");
  }
  ThreadPool threads(0);
  constexpr std::uint64_t kPasses = 2;
  LogDisplay display(kPasses);
  std::uint64_t pass = 0;
  std::uint64_t rounds = 0;
  Evaluation evaluation = evaluate_log(
      [&](bool features, const VisitRound& visit) {
        display.begin_pass(++pass);
        report = read_log(flags.log, features, [&](const LoggedRound& round) {
          visit(round);
          display.show(++rounds);
        });
      },
      flags.options, threads);
  display.end(rounds);
  return evaluation;
}

void run_evaluate(EvaluateFlags flags) {
  if (!flags.estimators.empty()) {
    flags.options.estimators.clear();
    for (const std::string& name : flags.estimators) {
      flags.options.estimators.push_back(parse_estimator(name));
    }
  }
  flags.options.model = parse_reward_model(flags.model);
  flags.options.lowest_reward = flags.reward_range[0];
  flags.options.highest_reward = flags.reward_range[1];
  if (!flags.output.empty()) {
    make_folder(flags.output);  // fails before the long computation
  }
  std::string report;
  const Evaluation evaluation = evaluation_of(flags, report);
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
    write_files(flags, evaluation);
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
          "random, first, action=ID, state=FILE[:greedy|epsilon=E|softmax=T|squarecb=G], "
          "frequency=LOG, replay=POLICY or progressive=POLICY; several with commas. None for a "
          "table with a column policy_probability")
      ->delimiter(',');
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
  command->add_option("--reward-model", flags->model, "What models the rewards: ridge or network")
      ->check(CLI::IsMember({"ridge", "network"}))
      ->capture_default_str();
  command->add_option("--lambda", flags->options.lambda, "Regularisation of the ridge regressions")
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
  command->add_option(
      "--output", flags->output,
      "Folder for the numbers as CSV, JSON and LaTeX, and a picture; a section of the "
      "page that mcnb report makes of the folder above");
  add_table_view_flags(*command, flags->tables);
  command->callback([flags] { run_evaluate(*flags); });
}

}  // namespace mcnb
