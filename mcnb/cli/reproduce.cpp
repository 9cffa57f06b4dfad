#include <fmt/core.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "bench/breakdown.h"
#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/data_folders.h"
#include "mcnb/cli/progress.h"
#include "mcnb/experiment/contestants.h"
#include "mcnb/experiment/page.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

struct ReproduceFlags {
  std::vector<std::string> names;
  std::string environments;
  std::string policies;
  std::vector<std::string> settings;
  std::string rounds;
  std::string seeds;
  std::string first_seed;
  std::string jobs;
  std::string shard;
  std::string output = "results/paper";
  std::string data;
  bool tune = false;
  bool fresh = false;
  bool stored_only = false;
  std::string command;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text + ",") {
    if (c != ',') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  return parts;
}

// Where plans are: those of the current folder come before the ones that came with the program.
std::vector<fs::path> plan_folders() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return {"experiments", MCNB_EXPERIMENTS_DIR,
          program.parent_path().parent_path() / "share/mcnb/experiments"};
}

// The paper's, in its order.
const std::vector<std::string> kPaper = {"fig-recommendation", "fig-classification", "fig-runtime",
                                         "table-breakdown",    "fig-nu-gamma",       "fig-s",
                                         "fig-users",          "fig-clusters"};

Plan plan_of(const std::string& name, const ReproduceFlags& flags) {
  Plan plan = read_plan(find_plan(name, plan_folders()));
  const std::pair<const char*, const std::string*> values[] = {{"rounds", &flags.rounds},
                                                               {"seeds", &flags.seeds},
                                                               {"first_seed", &flags.first_seed},
                                                               {"threads", &flags.jobs}};
  for (const auto& [option, text] : values) {
    if (!text->empty()) {
      experiment_option_table().set(plan.options, option, *text);
    }
  }
  if (!flags.environments.empty()) {
    plan.environments = split(flags.environments);
  }
  if (!flags.policies.empty()) {
    plan.policies = split(flags.policies);
  }
  for (const auto& [option, value] : read_settings(flags.settings)) {
    plan.settings[option] = value;
  }
  return plan;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown";
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

// A table of its own benchmark: times, not regrets, are what it shows.
Section breakdown_section(const fs::path& folder, const Plan& plan, const ReproduceFlags& flags) {
  Section section{plan.name, plan.title, {}, {}, {}};
  const fs::path file = folder / "bench-breakdown.csv";
  if (!flags.stored_only) {
    bench::BreakdownOptions options;
    options.users.clear();
    for (const std::string& users : plan.axis ? plan.axis->values : std::vector<std::string>()) {
      options.users.push_back(parse_count("users", {1, 1e7}, users));
    }
    if (options.users.empty()) {
      options.users = {500, 5'000, 10'000, 20'000};
    }
    options.meta_samples = {0};
    options.experiment_rounds = 0;
    options.peer = false;
    options.output = folder.string();
    bench::bench_breakdown(options);
  }
  std::ifstream text(file);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string> cells(1);
    for (const char c : line) {
      c == ',' ? static_cast<void>(cells.emplace_back()) : cells.back().push_back(c);
    }
    rows.push_back(std::move(cells));
  }
  if (rows.empty()) {
    section.notes.push_back("not measured yet: mcnb reproduce " + plan.name);
    return section;
  }
  Table table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    table.add_row(rows[i]);
  }
  section.tables.push_back({"bench-breakdown",
                            "Seconds of a round, part by part, beside the paper's",
                            std::move(table)});
  return section;
}

void show(const Section& section, const fs::path& folder) {
  fmt::print("\n{}\n\n", section.title);
  for (const NamedTable& table : section.tables) {
    fmt::print("{}\n{}\n", table.caption, table.for_people.aligned());
  }
  for (const std::string& note : section.notes) {
    fmt::print("note: {}\n", note);
  }
  for (const NamedPicture& picture : section.pictures) {
    fmt::print("picture  {}.png, .svg\n", (folder / picture.name).string());
  }
}

MadeBy made_by(const ReproduceFlags& flags, const std::vector<Plan>& plans,
               const CellStore& store) {
  MadeBy facts{
      {"made", date()},
      {"version", this_program()},
      {"machine", fmt::format("{}, {} threads, {}", processor(),
                              std::thread::hardware_concurrency(), kernels::simd_target())},
      {"command", flags.command},
      {"results", fmt::format("{}, {} runs", store.path().string(), store.size())}};
  for (const Plan& plan : plans) {
    facts.emplace_back(plan.name, fmt::format("{} rounds, seeds {} to {}", plan.options.rounds,
                                              plan.options.first_seed,
                                              plan.options.first_seed + plan.options.seeds - 1));
  }
  return facts;
}

// Environments whose data is not here are left out, and named.
std::vector<Study> playable(const Plan& plan, const std::shared_ptr<DataSource>& data,
                            std::vector<std::string>& notes) {
  std::vector<Study> all;
  Plan one = plan;
  for (const std::string& environment : plan.environments) {
    one.environments = {environment};
    try {
      std::vector<Study> studies = studies_of(one, data);
      for (const Study& study : studies) {
        source_text(study.experiment.environment);
      }
      all.insert(all.end(), studies.begin(), studies.end());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) {
        throw;
      }
      notes.push_back(fmt::format("{} is left out: {}", environment, error.what()));
    }
  }
  return all;
}

void reproduce(const ReproduceFlags& flags) {
  std::vector<std::string> names = flags.names;
  if (names == std::vector<std::string>{"all"}) {
    names = kPaper;
  }
  std::vector<Plan> plans;
  for (const std::string& name : names) {
    plans.push_back(plan_of(name, flags));
  }
  const fs::path output = flags.output;
  const CellStore store(output / kResultsFile, this_program());
  const std::shared_ptr<DataSource> data = data_source(flags.data);
  PlanRunOptions options{.cells = {.fresh = flags.fresh, .stored_only = flags.stored_only},
                         .tune = flags.tune};
  if (!flags.shard.empty()) {
    options.cells.shard = parse_shard(flags.shard);
  }
  std::vector<Section> sections;
  std::size_t missing = 0;
  RunControl control;
  for (const Plan& plan : plans) {
    const fs::path folder = output / plan.name;
    if (plan.figure == Figure::kBreakdown) {
      sections.push_back(breakdown_section(folder, plan, flags));
      show(sections.back(), folder);
      continue;
    }
    std::vector<std::string> notes;
    std::vector<Study> studies = playable(plan, data, notes);
    for (const std::string& note : notes) {
      fmt::print(stderr, "{}\n", note);
    }
    if (studies.empty()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: the data of no environment is here", plan.name));
    }
    options.cells.threads = plan.options.threads;
    ExperimentProgress progress;
    PlanResults results;
    fmt::print(stderr, "{}\n", plan.name);
    control.rounds_done = 0;
    {
      const InterruptHandler handler(control);
      const ProgressDisplay display(control, progress);
      results = run_plan(plan, std::move(studies), store, options, control, progress);
    }
    fmt::print(stderr, "{}: {} runs, {} of them kept from before\n", plan.name,
               progress.cells_done.load(), progress.cells_kept.load());
    missing += results.missing;
    if (control.stop) {
      fmt::print(stderr, "interrupted: finished runs are saved in {}\nthe same command goes on\n",
                 store.path().string());
      throw CLI::RuntimeError(kInterrupted);
    }
    sections.push_back(make_section(folder, plan, results));
    sections.back().notes.insert(sections.back().notes.end(), notes.begin(), notes.end());
    show(sections.back(), folder);
  }
  const fs::path page = output / "report.html";
  write_text_file(page, html_page("mcnb: results", sections, output, made_by(flags, plans, store)));
  fmt::print("\npage     {}\nresults  {}\n", page.string(), store.path().string());
  if (missing > 0) {
    fmt::print(stderr, "{} runs are missing{}\n", missing,
               flags.shard.empty() ? "" : ": join the shards by mcnb results merge");
  }
}

// What was typed, for the page.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  std::string part;
  for (bool first = true; std::getline(file, part, '\0'); first = false) {
    text += first ? "mcnb" : " " + part;
  }
  return text;
}

void add_plan_flags(CLI::App* command, const std::shared_ptr<ReproduceFlags>& flags) {
  command->add_option("NAME", flags->names,
                      "Plans: fig-recommendation, fig-classification, fig-runtime, "
                      "table-breakdown, fig-nu-gamma, fig-s, fig-users, fig-clusters, all of these "
                      "by `all`, or the path of a .toml file of your own");
  command->add_option("--datasets,--environments", flags->environments,
                      "Environments instead of the plan's, separated by commas");
  command->add_option("--policies", flags->policies,
                      "Policies instead of the plan's, separated by commas");
  command->add_option("--set", flags->settings, "Options of the environments, name=value")
      ->expected(1)
      ->take_all();
  command->add_option("--rounds", flags->rounds, "Rounds of every run, instead of the plan's");
  command->add_option("--seeds", flags->seeds, "Runs of every policy, instead of the plan's");
  command->add_option("--first-seed", flags->first_seed, "Seed of the first run");
  command->add_flag("--tune", flags->tune,
                    "First choose every policy's options by the plan's grid, on seeds of its own");
  command->add_option("--data", flags->data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  command->add_option("--output", flags->output, "Folder for the results")->capture_default_str();
}

void add_reproduce(CLI::App& app) {
  auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* command = app.add_subcommand("reproduce", "Make the paper's figures, or your own");
  add_plan_flags(command, flags);
  command->add_option("--jobs", flags->jobs, "Runs side by side; 0: one per processor");
  command->add_option("--shard", flags->shard,
                      "Only this part of the runs, like 2/5; join the parts by mcnb results merge");
  command->add_flag("--fresh", flags->fresh, "Run again what has been run before");
  command->footer(
      "Plans are the files experiments/*.toml: copy one, change it, and give its path. Finished\n"
      "runs are kept in OUTPUT/results.sqlite: after an interruption the same command goes on.");
  command->callback([flags] {
    if (flags->names.empty()) {
      refuse_option("NAME", "names of plans, or all", "");
    }
    flags->command = command_line();
    reproduce(*flags);
  });
}

void add_report(CLI::App& app) {
  auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* command = app.add_subcommand(
      "report", "Make tables, pictures and the page anew from finished runs, running nothing");
  add_plan_flags(command, flags);
  command->callback([flags] {
    flags->stored_only = true;
    flags->command = command_line();
    if (!fs::exists(fs::path(flags->output) / kResultsFile)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: there are no results; mcnb reproduce makes them",
                              (fs::path(flags->output) / kResultsFile).string()));
    }
    if (flags->names.empty()) {
      flags->names = {"all"};
    }
    reproduce(*flags);
  });
}

void add_results(CLI::App& app) {
  CLI::App* results = app.add_subcommand("results", "Files of finished runs");
  results->require_subcommand(1);
  CLI::App* merge = results->add_subcommand("merge", "Add the runs of other files to the first");
  auto files = std::make_shared<std::vector<std::string>>();
  merge->add_option("FILES", *files, "INTO.sqlite FROM.sqlite ...")
      ->required()
      ->expected(2, 10'000);
  merge->callback([files] {
    const CellStore into(files->front(), this_program());
    for (std::size_t i = 1; i < files->size(); ++i) {
      const std::size_t added = into.merge((*files)[i]);
      fmt::print("{}: {} runs added\n", (*files)[i], added);
    }
    fmt::print("{}: {} runs\n", files->front(), into.size());
  });
}

}  // namespace

void run_plan_file(const std::string& path, const std::string& output, const std::string& data,
                   bool fresh) {
  ReproduceFlags flags;
  flags.names = {path};
  flags.output = output;
  flags.data = data;
  flags.fresh = fresh;
  flags.command = command_line();
  reproduce(flags);
}

void add_reproduce_commands(CLI::App& app) {
  add_reproduce(app);
  add_report(app);
  add_results(app);
}

}  // namespace mcnb
