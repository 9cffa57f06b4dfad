#include "mcnb/cli/program_commands.h"

#include <fmt/core.h>

#include <memory>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/json_writer.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/progress.h"
#include "mcnb/cli/usage.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

void print_version(bool json) {
  const std::vector<std::pair<const char*, std::string>> facts = {
      {"version", MCNB_VERSION},
      {"results", this_program()},
      {"compiler", __VERSION__},
      {"instruction set", std::string(kernels::simd_target())}};
  JsonWriter out;
  out.begin_object();
  std::string lines;
  for (const auto& [what, value] : facts) {
    out.key(what).value(value);
    lines += fmt::format("{:17}{}\n", what, value);
  }
  fmt::print("{}{}", json ? out.end_object().take() : "mcnb " MCNB_VERSION "\n\n" + lines,
             json ? "\n" : "");
}

void print_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    const auto children =
        command->get_subcommands([&](const CLI::App* child) { return child->get_name() == word; });
    if (children.empty()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("there is no command \"{} {}\"{}", path, word,
                              advice(nearest_word(word, subcommand_names(*command)), path)));
    }
    path += " " + word;
    command = children.front();
  }
  // CLI11's own function would show the help of `help`, the command that runs.
  fmt::print("{}", command->get_formatter()->make_help(command, path, CLI::AppFormatMode::Normal));
}

}  // namespace

void add_program_commands(CLI::App& app) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* help = app.add_subcommand("help", "Show the help of a command");
  help->add_option("COMMAND", *words, "The command, such as run or data get");
  help->callback([&app, words] { print_help(app, *words); });

  const auto json = std::make_shared<bool>(false);
  CLI::App* version = app.add_subcommand("version", "Show the version and how this was built");
  version->add_flag("--json", *json, "Print it as JSON");
  version->callback([json] { print_version(*json); });

  const auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "Print what a shell needs to complete commands and flags");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  completion->footer("For this session of bash: source <(mcnb completion bash)");
  completion->callback([&app, shell] { fmt::print("{}", completion_of(app, *shell)); });

  CLI::App* manual = app.add_subcommand("manual", "Print the manual page, for man");
  manual->footer("To read it: mcnb manual | man -l -");
  manual->callback([&app] { fmt::print("{}", manual_of(app)); });
}

}  // namespace mcnb
