#include "mcnb/cli/plan_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/environment_flags.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kAll = {"all"};

// Plans of the current folder come before those that came with the program.
std::vector<fs::path> plan_folders() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return {"experiments", MCNB_EXPERIMENTS_DIR,
          program.parent_path().parent_path() / "share/mcnb/experiments"};
}

// The entries of a list with commas. An empty text gives an empty list. Throws Error (kUsage) for a
// text with nothing but commas.
std::vector<std::string> read_list(const char* flag, const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  if (parts.empty() && !text.empty()) {
    refuse_option(flag, "at least one", text);
  }
  return parts;
}

std::optional<std::uint64_t> read_count(std::uint64_t ExperimentOptions::*member,
                                        const char* option, const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  ExperimentOptions options;
  experiment_option_table().set(options, option, text);
  return options.*member;
}

PlanRequest read_request(const PlanFlags& flags) {
  return {.name = {},
          .text = {},
          .environments = read_list("datasets", flags.environments),
          .policies = read_list("policies", flags.policies),
          .settings = read_settings(flags.settings),
          .rounds = read_count(&ExperimentOptions::rounds, "rounds", flags.rounds),
          .seeds = read_count(&ExperimentOptions::seeds, "seeds", flags.seeds),
          .first_seed = read_count(&ExperimentOptions::first_seed, "first_seed", flags.first_seed),
          .tune = flags.tune,
          .command = command_line()};
}

// The entries of a plan's list that are wanted, with any options: `linucb` also wants
// `linucb:users=each`. All entries if `wanted` is empty.
std::vector<std::string> chosen_from(const std::vector<std::string>& list,
                                     const std::vector<std::string>& wanted) {
  std::vector<std::string> chosen;
  std::ranges::copy_if(list, std::back_inserter(chosen), [&](const std::string& entry) {
    return wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& name) {
             return entry == name || entry.starts_with(name + ":");
           });
  });
  return chosen;
}

// Chooses among the entries of the plan. Returns false if none of a list is wanted.
bool choose_entries(const Plan& plan, PlanRequest& request) {
  const std::vector<std::string> environments =
      chosen_from(plan.environments, request.environments);
  const std::vector<std::string> policies = chosen_from(plan.policies, request.policies);
  if (environments.empty() || policies.empty()) {
    fmt::print(stderr, "{} is left out: it has none of these {}\n", plan.name,
               environments.empty() ? "data sets" : "policies");
    return false;
  }
  request.environments =
      environments == plan.environments ? std::vector<std::string>() : environments;
  request.policies = policies == plan.policies ? std::vector<std::string>() : policies;
  return true;
}

std::string text_of(const std::string& name, const PlanTexts& texts) {
  const auto kept = texts.find(fs::path(name).stem().string());
  if (kept != texts.end() && name.ends_with(".toml") && !fs::exists(name)) {
    return kept->second;
  }
  return read_plan(find_plan(name, plan_folders())).text;
}

}  // namespace

bool PlanFlags::change_plans() const {
  return tune || !settings.empty() ||
         std::ranges::any_of(std::vector{environments, policies, rounds, seeds, first_seed},
                             [](const std::string& text) { return !text.empty(); });
}

void refuse_empty(CLI::App& command, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    command.get_option(flag)->check(
        [](const std::string& text) { return text.empty() ? "expected a value" : ""; });
  }
}

void add_plan_flags(CLI::App& command, PlanFlags& flags, const std::string& about_tuning) {
  std::string paper;
  for (const std::string& name : paper_plans()) {
    paper += name + ", ";
  }
  command.add_option("NAME", flags.names,
                     "Plans: " + paper +
                         "or `all` for all of these; matched-recommendation, "
                         "matched-classification; or the path of your own .toml file");
  command.add_option("--datasets,--environments", flags.environments,
                     "Environments instead of the plan's, separated by commas");
  command.add_option("--policies", flags.policies,
                     "Policies instead of the plan's, separated by commas");
  command.add_option("--set", flags.settings, "Options of the environments, name=value")
      ->expected(1)
      ->take_all();
  command.add_option("--rounds", flags.rounds, "Rounds of every run, instead of the plan's");
  command.add_option("--seeds", flags.seeds, "Runs of every policy, instead of the plan's");
  command.add_option("--first-seed", flags.first_seed, "Seed of the first run");
  command.add_flag("--tune", flags.tune, about_tuning);
  command.add_option("--data", flags.data,
                     "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  command.add_option("--output", flags.output, "Folder for the results")->capture_default_str();
  add_results_flag(command, flags.results);
  add_table_view_flags(command, flags.tables);
  refuse_empty(command, {"--datasets", "--policies", "--rounds", "--seeds", "--first-seed"});
}

void add_results_flag(CLI::App& command, std::string& results) {
  command
      .add_option("--results", results,
                  "File of finished runs, or postgresql://USER@HOST/DATABASE, where machines share "
                  "the runs of one command; without it OUTPUT/results.sqlite")
      ->check([](const std::string& text) { return text.empty() ? "expected a value" : ""; });
}

std::string results_of(const std::string& results, const std::string& output) {
  return results.empty() ? (fs::path(output) / kResultsFile).string() : results;
}

namespace {

// A word of the command line, without the user and the password of a database.
std::string without_password(const std::string& word) {
  const std::size_t url = std::min(word.find("postgresql://"), word.find("postgres://"));
  if (url == std::string::npos) {
    return word;
  }
  try {
    return word.substr(0, url) + postgres_name(word.substr(url));
  } catch (const Error&) {
    return word.substr(0, url) + "postgresql://";
  }
}

}  // namespace

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  std::string part;
  for (bool first = true; std::getline(file, part, '\0'); first = false) {
    text += first ? "mcnb" : " " + without_password(part);
  }
  return text;
}

std::vector<PlanRequest> requests_of(const PlanFlags& flags, const PlanTexts& texts) {
  const bool all = flags.names == kAll;
  if (!all && std::ranges::count(flags.names, "all") > 0) {
    refuse_option("NAME", "all alone, or names of plans", "all beside others");
  }
  const PlanRequest given = read_request(flags);
  std::vector<PlanRequest> requests;
  std::vector<Plan> plans;
  std::set<std::string> keys;
  for (const std::string& name : all ? paper_plans() : flags.names) {
    PlanRequest request = given;
    request.name = name;
    request.text = text_of(name, texts);
    if (all && !choose_entries(read_plan(name + ".toml", request.text), request)) {
      continue;
    }
    plans.push_back(requested_plan(request));
    requests.push_back(std::move(request));
    if (!keys.insert(page_key(plans.back())).second) {
      refuse_option("NAME", "plans of different names", name);
    }
  }
  if (requests.empty()) {
    refuse_option(flags.environments.empty() ? "policies" : "datasets",
                  "one that a plan of the paper has",
                  flags.environments.empty() ? flags.policies : flags.environments);
  }
  check_settings(given.settings, plans);
  return requests;
}

}  // namespace mcnb
