#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/environment_flags.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/theory/study.h"

namespace mcnb {
namespace {

struct TheoryFlags {
  std::string environment = "synthetic";
  std::string policy = "mcnb";
  std::vector<std::string> settings;
  std::map<std::string, std::string> values;  // of TheoryOptions
  std::string output = "results/theory";
  std::string data;
  TableFlags tables;
};

void run_theory(const TheoryFlags& flags) {
  TheoryOptions options;
  set_from_flags(theory_option_table(), flags.values, options);
  const EnvironmentSpec environment =
      read_environment(flags.environment, flags.settings, flags.data);
  const std::filesystem::path folder = flags.output;
  make_folder(folder);  // fails before the long computation
  const TheoryStudy study = study_theory(
      environment, fitted_to(environment, {parse_policy(flags.policy)}).front(), options);
  const TextTable facts = theory_table(study);
  const TextTable kernel = kernel_table(study);
  TableView view(flags.tables);
  view.show("quantities", facts);
  view.say("\n");
  view.show("kernel", kernel);
  view.say("\n");
  write_file(folder / "theory.csv", facts.csv());
  write_file(folder / "kernel.csv", kernel.csv());
  view.say(fmt::format("numbers  {}, kernel.csv\n", (folder / "theory.csv").string()));
  try {
    draw_kernel_plot(folder, study);
    view.say(fmt::format("picture  {}, kernel.svg\n", (folder / "kernel.png").string()));
  } catch (const Error& error) {
    view.say("picture  none\n");
    fmt::print(stderr, "mcnb: no picture: {}\n", error.what());
  }
  view.finish();
}

}  // namespace

void add_theory_command(CLI::App& app) {
  auto flags = std::make_shared<TheoryFlags>();
  CLI::App* command =
      app.add_subcommand("theory", "Measure the quantities of the paper's analysis");
  command->add_option("--environment", flags->environment, "See mcnb environments")
      ->capture_default_str();
  command->add_option("--policy", flags->policy, "Policy whose regret and clusters are measured")
      ->capture_default_str();
  command->add_option("--set", flags->settings, "Options of the environment, name=value")
      ->expected(1)
      ->take_all();
  add_table_flags(*command, theory_option_table().help(), flags->values);
  command->add_option("--data", flags->data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  command->add_option("--output", flags->output, "Folder for the results")->capture_default_str();
  add_table_view_flags(*command, flags->tables);
  command->callback([flags] { run_theory(*flags); });
}

}  // namespace mcnb
