#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/data_folders.h"
#include "mcnb/cli/progress.h"
#include "mcnb/experiment/experiment.h"
#include "mcnb/experiment/experiment_policies.h"
#include "mcnb/experiment/plot.h"
#include "mcnb/experiment/report.h"

namespace mcnb {
namespace {

// The flags as they were typed; the option tables read and check them.
struct RunFlags {
  std::string environment = "synthetic";
  std::string policies = "mcnb,linucb,random";
  std::vector<std::string> settings;          // of the environment
  std::map<std::string, std::string> values;  // of ExperimentOptions
  std::string output = "results/run";
  std::string data;
  std::string plan;  // a file that says all of it
  bool fresh = false;
};

Experiment read_experiment(const RunFlags& flags) {
  Experiment experiment{
      .environment = read_environment(flags.environment, flags.settings, flags.data),
      .policies = parse_policies(flags.policies),
      .options = {}};
  experiment.policies = fitted_to(experiment.environment, std::move(experiment.policies));
  set_from_flags(experiment_option_table(), flags.values, experiment.options);
  // Finds contradictions before anything is run.
  experiment.description =
      make_environment(experiment.environment, experiment.options.first_seed)->description();
  if (!experiment.description.empty()) {
    fmt::print(stderr, "{}: {}\n", flags.environment, experiment.description);
  }
  return experiment;
}

void write_report(const std::filesystem::path& folder, const Experiment& experiment,
                  const std::vector<CellResult>& results) {
  const std::vector<PolicySummary> summaries = summarise(experiment, results);
  const std::string table = summary_for_people(summaries).aligned();
  write_text_file(folder / "table.txt", table);
  write_text_file(folder / "summary.csv", summary_for_machines(summaries).csv());
  write_text_file(folder / "curves.csv", curves_table(results).csv());
  write_text_file(folder / "results.json", report_json(experiment, summaries, results));
  fmt::print("{}\ntable    {}\n", table, (folder / "table.txt").string());
  fmt::print("numbers  {}, curves.csv, results.json\n", (folder / "summary.csv").string());
  try {
    const PlotFiles files = draw_plot(folder, experiment, results);
    fmt::print("picture  {}, {}\n", files.png.string(), files.svg.filename().string());
  } catch (const Error& error) {
    fmt::print("picture  none\n");
    fmt::print(stderr, "mcnb: no picture: {}\n", error.what());
  }
}

void run(const RunFlags& flags) {
  const Experiment experiment = read_experiment(flags);
  const std::filesystem::path folder = flags.output;
  const CellStore store(folder / kResultsFile, this_program(), this_machine());
  RunControl control;
  ExperimentProgress progress;
  std::vector<CellResult> results;
  {
    const InterruptHandler handler(control);
    const ProgressDisplay display(control, progress);
    results = run_experiment(experiment, store, flags.fresh, control, progress);
  }
  if (progress.cells_kept > 0) {
    fmt::print(stderr, "{} of {} runs kept from before (--fresh runs them again)\n",
               progress.cells_kept.load(), progress.cells_total.load());
  }
  if (results.size() < progress.cells_total) {
    fmt::print(stderr,
               "interrupted: {} of {} runs are finished and saved in {}\n"
               "the same command goes on from there\n",
               results.size(), progress.cells_total.load(), store.path().string());
    throw CLI::RuntimeError(kInterrupted);
  }
  write_report(folder, experiment, results);
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Compare policies in an environment");
  command->add_option("--environment", flags->environment, "See mcnb environments")
      ->capture_default_str();
  command
      ->add_option("--policy", flags->policies,
                   "Policies with their options, name:option=value:...,name...; see mcnb policies")
      ->capture_default_str();
  command->add_option("--set", flags->settings, "Options of the environment, name=value")
      ->expected(1)
      ->take_all();
  add_table_flags(*command, experiment_option_table().help(), flags->values);
  command->add_option("--data", flags->data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  command->add_option("--output", flags->output, "Folder for the results")->capture_default_str();
  command->add_flag("--fresh", flags->fresh, "Run again what has been run before");
  command->footer(
      "Finished runs are kept in the output folder: after an interruption the same command goes\n"
      "on from there.");
  command
      ->add_option(
          "PLAN", flags->plan,
          "A file of a plan (.toml), which then says everything; see mcnb reproduce --help")
      ->check(CLI::ExistingFile);
  command->callback([flags, command] {
    if (flags->plan.empty()) {
      run(*flags);
      return;
    }
    for (const CLI::Option* option : command->get_options()) {
      const std::string name = option->get_name();
      if (option->count() > 0 && name != "PLAN" && name != "--output" && name != "--data" &&
          name != "--fresh") {
        throw Error(
            ErrorKind::kUsage,
            fmt::format("{}: expected only --output, --data and --fresh beside a plan, which "
                        "says the rest; mcnb reproduce takes more",
                        name));
      }
    }
    const bool own_output = command->count("--output") > 0;
    run_plan_file(flags->plan, own_output ? flags->output : "results", flags->data, flags->fresh);
  });
}

}  // namespace mcnb
