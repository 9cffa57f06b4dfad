#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/environment_flags.h"
#include "mcnb/cli/progress.h"
#include "mcnb/cli/report_display.h"
#include "mcnb/experiment/report/plan_report.h"
#include "mcnb/experiment/run/experiment.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

// The flags as they were typed. The option tables read and check them.
struct RunFlags {
  std::string environment = "synthetic";
  std::string policies = "mcnb,linucb,random";
  std::vector<std::string> settings;          // of the environment
  std::map<std::string, std::string> values;  // of ExperimentOptions
  std::string output = "results/run";
  std::string results;
  std::string data;
  std::string plan;  // a file of a plan, instead of all flags above
  std::string device = "cpu";
  bool fresh = false;
  TableFlags tables;
};

Experiment read_experiment(const RunFlags& flags) {
  Experiment experiment{
      .environment = read_environment(flags.environment, flags.settings, flags.data),
      .policies = parse_policies(flags.policies),
      .options = {}};
  experiment.policies = fitted_to(experiment.environment, std::move(experiment.policies));
  set_from_flags(experiment_option_table(), flags.values, experiment.options);
  // Making the environment finds contradictions in its options before anything runs.
  experiment.description =
      make_environment(experiment.environment, experiment.options.first_seed)->description();
  if (!experiment.description.empty()) {
    fmt::print(stderr, "{}: {}\n", flags.environment, experiment.description);
  }
  return experiment;
}

// The plan of a run: one study, reported under file names that do not depend on the environment.
Plan plan_of(const Experiment& experiment) {
  Plan plan;
  plan.name = "run";
  plan.figure = Figure::kRun;
  plan.environments = {experiment.environment.name};
  for (const PolicySpec& policy : experiment.policies) {
    plan.policies.push_back(policy.label);
  }
  plan.options = experiment.options;
  return plan;
}

// Shows how the runs of `mcnb run` proceed.
class RunDisplay final : public ReportDisplay {
 public:
  using ReportDisplay::ReportDisplay;
  void runs_finished(const Plan&, const ExperimentProgress& progress, double) override {
    note_runs(progress);
    if (progress.cells_kept > 0) {
      fmt::print(stderr, "{} of {} runs kept from before (--fresh runs them again)\n",
                 progress.cells_kept.load(), progress.cells_total.load());
    }
  }
};

void run(const RunFlags& flags) {
  const Device device = parse_device(flags.device);
  const Experiment experiment = read_experiment(flags);
  for (const PolicySpec& policy : experiment.policies) {
    if (device != Device::kCpu && policy.name != "mcnb") {
      refuse_option("device", "cpu for policy " + policy.name + ", since only mcnb has another",
                    flags.device);
    }
  }
  const Plan plan = plan_of(experiment);
  const std::filesystem::path folder = flags.output;
  const CellStore store(results_of(flags.results, flags.output), this_program(), this_machine());
  RunDisplay display(flags.tables);
  const PlanReport report = report_plan(
      plan, {{plan.environments.front(), "", experiment}}, store,
      {.run = {.cells = {.threads = plan.options.threads, .fresh = flags.fresh, .device = device}},
       .folder = folder,
       .whole_only = true},
      display);
  if (report.interrupted) {
    end_interrupted(display.finished(), display.total(), store.name());
  }
  if (!report.results.failures.empty()) {
    const FailedCell& first = report.results.failures.front();
    throw Error(ErrorKind::kInput, first.why).within(cell_text(first.cell));
  }
  display.section_made(*report.section, folder);
  display.view().finish();
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
  add_results_flag(*command, flags->results);
  add_device_flag(*command, flags->device);
  command->add_flag("--fresh", flags->fresh, "Run again what has been run before");
  add_table_view_flags(*command, flags->tables);
  command->footer(
      "Finished runs are kept in the output folder: after an interruption the same command goes "
      "on\n"
      "from there.");
  command
      ->add_option("PLAN", flags->plan,
                   "File of a plan (.toml) to run instead; see mcnb reproduce --help")
      ->check([](const std::string& path) {
        return std::filesystem::is_regular_file(path)
                   ? std::string()
                   : "expected the file of a plan, got \"" + path +
                         "\"; --policy and --environment name what to run without one";
      });
  command->callback([flags, command] {
    if (flags->plan.empty()) {
      run(*flags);
      return;
    }
    for (const CLI::Option* option : command->get_options()) {
      const std::string name = option->get_name();
      if (option->count() > 0 && name != "PLAN" && name != "--output" && name != "--results" &&
          name != "--data" && name != "--fresh" && name != "--json" && name != "--wide") {
        throw Error(ErrorKind::kUsage,
                    fmt::format("{}: expected only --output, --results, --data, --fresh, --json "
                                "and --wide beside a plan; mcnb reproduce has flags that change a "
                                "plan",
                                name));
      }
    }
    const bool own_output = command->count("--output") > 0;
    run_plan_file(flags->plan, own_output ? flags->output : "results", flags->results, flags->data,
                  flags->fresh, flags->tables);
  });
}

}  // namespace mcnb
