#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/base/text_table.h"
#include "mcnb/cli/commands.h"
#include "mcnb/environment/environments.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

struct HelpFlags {
  std::string name;  // empty: all
  bool markdown = false;
  TableFlags tables;
};

TextTable option_rows(const std::vector<OptionHelp>& options) {
  TextTable table({"option", "expected", "default", "meaning"});
  for (const OptionHelp& option : options) {
    table.add_row({option.name, option.expected, option.standard, option.help});
  }
  return table;
}

template <class Entry>
void print_entry(const Entry& entry, bool markdown, TableView& view) {
  if (view.is_json()) {
    view.show(entry.name, option_rows(entry.options));
    return;
  }
  fmt::print(fmt::runtime(markdown ? "## {}\n\n{}.\n" : "{}: {}\n"), entry.name, entry.help);
  if constexpr (requires { entry.paper; }) {
    fmt::print(fmt::runtime(markdown ? "\nPaper: {}.\n" : "paper: {}\n"), entry.paper);
  }
  if (!entry.options.empty()) {
    const TextTable table = option_rows(entry.options);
    fmt::print("\n{}", markdown ? table.markdown() : "");
    if (!markdown) {
      view.show(entry.name, table);
    }
  }
  fmt::print("\n");
}

// Prints the entry that the flags name, or all. Throws Error (kUsage) for an unknown name.
template <class Entry>
void print_entries(const std::vector<Entry>& entries, const HelpFlags& flags, const char* kind) {
  if (!flags.name.empty() &&
      std::ranges::none_of(entries, [&](const Entry& e) { return e.name == flags.name; })) {
    std::string known;
    for (const Entry& entry : entries) {
      known += (known.empty() ? "" : ", ") + entry.name;
    }
    refuse_option(kind, "one of " + known, flags.name);
  }
  TableView view(flags.tables);
  for (const Entry& entry : entries) {
    if (flags.name.empty() || entry.name == flags.name) {
      print_entry(entry, flags.markdown, view);
    }
  }
  view.finish();
}

// Environments with equal options share one table. Those made of data sets have equal options.
void print_environments(const HelpFlags& flags) {
  std::vector<EnvironmentHelp> groups;
  for (const EnvironmentHelp& entry : environment_help()) {
    const auto same = std::ranges::find(groups, entry.options, &EnvironmentHelp::options);
    if (same == groups.end() || !flags.name.empty() || flags.tables.json) {
      groups.push_back(entry);
    } else {
      same->help += fmt::format(fmt::runtime(flags.markdown ? ".\n\n**{}**: {}" : "\n{}: {}"),
                                entry.name, entry.help);
    }
  }
  print_entries(groups, flags, "environment");
}

// Which policy to choose when, from the measurements in docs/RESULTS.md.
TextTable which_policy() {
  TextTable table({"situation", "policy"});
  table.add_row(
      {"you want the least regret: recommendations, the service's features, hidden groups "
       "of users",
       "`hierarchical`"});
  table.add_row({"a user meets the same arm again and again",
                 "`hierarchical`; its `memory` is made for this"});
  table.add_row({"tastes drift",
                 "`hierarchical`, which notices; if you know in how many rewards of all users "
                 "tastes change by half, `hierarchical:half_life=8000` for 8,000"});
  table.add_row({"arms of more than 64 numbers, or a class per arm (pictures, sensors)",
                 "`hierarchical`, which trains a hidden layer; `neural-linear` comes close in a "
                 "fraction of the time"});
  table.add_row({"decisions in a few microseconds, or a model that is easy to explain",
                 "`linucb:users=hybrid:products=yes` up to some 20 numbers, `linucb:users=each` "
                 "beyond"});
  table.add_row({"explicit groups of users", "`club:alpha_2=1` if users have long histories"});
  table.add_row({"the paper's algorithm: to study it, or to compare with it",
                 "`mcnb`; it has more regret than `hierarchical` on most tasks"});
  table.add_row({"a baseline", "`random`, `epsilon-greedy`, and `oracle` in synthetic worlds"});
  return table;
}

// A page for the documentation: docs/POLICIES.md is this output, word for word.
void print_policies(const HelpFlags& flags) {
  const std::vector<PolicyHelp> all = experiment_policy_help();
  if (flags.markdown && flags.name.empty()) {
    TextTable table({"policy", "what it does", "paper"});
    for (const PolicyHelp& policy : all) {
      table.add_row({policy.name, policy.help, policy.paper});
    }
    fmt::print(
        "# Policies\n\nWritten by `mcnb policies --markdown`; a test compares it with the program. "
        "A policy is\nchosen as `--policy name:option=value:option=value`.\n\n"
        "## Which one should I use?\n\ndocs/RESULTS.md has the measurements behind this table.\n\n"
        "{}\n## All policies\n\n{}\n",
        which_policy().markdown(), table.markdown());
  }
  print_entries(all, flags, "policy");
}

std::shared_ptr<HelpFlags> add_help_command(CLI::App& app, const char* name, const char* help) {
  auto flags = std::make_shared<HelpFlags>();
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("name", flags->name, "The name of one; without it, all are listed");
  command->add_flag("--markdown", flags->markdown, "Print a page for the documentation");
  add_table_view_flags(*command, flags->tables);
  return flags;
}

}  // namespace

void add_table_flags(CLI::App& command, const std::vector<OptionHelp>& options,
                     std::map<std::string, std::string>& values) {
  for (const OptionHelp& option : options) {
    std::string name = "--" + option.name;
    std::ranges::replace(name, '_', '-');
    command.add_option(name, values[option.name],
                       fmt::format("{}, {} [{}]", option.help, option.expected, option.standard));
  }
}

void add_device_flag(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "What mcnb computes on: cpu, cuda (docs/GPU.md)")
      ->capture_default_str();
}

void add_help_commands(CLI::App& app) {
  const auto policies = add_help_command(app, "policies", "List the policies and their options");
  app.get_subcommand("policies")->callback([policies] { print_policies(*policies); });
  const auto environments =
      add_help_command(app, "environments", "List the environments and their options");
  app.get_subcommand("environments")->callback([environments] {
    print_environments(*environments);
  });
}

}  // namespace mcnb
