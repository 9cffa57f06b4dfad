#include <fmt/core.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
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
  if (flags.tune && !plan.tuning.grids.empty()) {  // stands beside the same plan as it is
    plan.name += "-tuned";
    plan.title += " (tuned)";
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

// A table as one text, and back: cells and rows between characters that no cell has.
std::string packed(const Table& table) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) {
      text += cell + '\x1f';
    }
    text += '\x1e';
  };
  add(table.headings());
  for (const std::vector<std::string>& row : table.rows()) {
    add(row);
  }
  return text;
}

Table unpacked(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  for (const char c : text) {
    if (c == '\x1f') {
      rows.back().emplace_back();
    } else if (c == '\x1e') {
      rows.back().pop_back();
      rows.emplace_back(1);
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  Table table(rows.empty() ? std::vector<std::string>{"nothing"} : rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() == rows.front().size()) {
      table.add_row(rows[i]);
    }
  }
  return table;
}

// A table of its own benchmark: times, not regrets, are what it shows. The last one is kept.
Section breakdown_section(const fs::path& folder, const Plan& plan, bool stored_only,
                          const CellStore& store) {
  Section section{plan.name, plan.title, {}, {}, {}};
  const std::string name = "table " + plan.name;
  if (!stored_only) {
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
    store.keep_text(name, packed(bench::bench_breakdown(options)));
  }
  const std::map<std::string, std::string> texts = store.kept_texts();
  if (const auto found = texts.find(name); found != texts.end()) {
    section.tables.push_back({"bench-breakdown",
                              "Time of a round, part by part, beside the paper's",
                              unpacked(found->second)});
  } else {
    section.notes.push_back("not measured yet: mcnb reproduce " + plan.name);
  }
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

// Without the folders that words name: a page tells nobody's.
std::string without_folders(const std::string& text) {
  std::string all;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ' ');) {
    const std::size_t slash = word.find_last_of('/');
    const bool is_address = word.find("://") != std::string::npos;
    const std::size_t equals = word.find('=');
    if (slash != std::string::npos && !is_address && word != "/") {
      const std::string head = equals < slash ? word.substr(0, equals + 1) : "";
      word = head + word.substr(slash + 1);
    }
    all += (all.empty() ? "" : " ") + word;
  }
  return all;
}

MadeBy made_by(const ReproduceFlags& flags, const std::vector<Plan>& plans,
               const CellStore& store) {
  MadeBy facts{
      {"made", date()},
      {"version", this_program()},
      {"machine", fmt::format("{}, {} threads, {}", processor(),
                              std::thread::hardware_concurrency(), kernels::simd_target())},
      {"command", without_folders(flags.command)},
      {"results", fmt::format("{}, {} runs", store.path().filename().string(), store.size())}};
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
      fmt::print(stderr, "{} is left out: {}\n", environment, error.what());
      const std::string why = error.what();
      notes.push_back(fmt::format("{} is left out: {}", environment,
                                  without_folders(why.substr(0, why.find('\n')))));
    }
  }
  return all;
}

// What was asked of a plan, as one text that is kept: for reports, which ask for the same.
std::string remembered(const std::string& name, const ReproduceFlags& flags) {
  std::string text;
  for (const std::string& line :
       {name, flags.environments, flags.policies, flags.rounds, flags.seeds, flags.first_seed,
        std::string(flags.tune ? "tune" : "")}) {
    text += line + "\n";
  }
  for (const std::string& setting : flags.settings) {
    text += setting + "\n";
  }
  return text;
}

// One plan with the flags that it is run, or reported, with.
struct Request {
  std::string name;
  ReproduceFlags flags;
};

// Plans that differ in settings, or in whether they are tuned, stand side by side on a page; other
// flags replace each other.
std::string key_of(const Request& request) {
  std::vector<std::string> settings = request.flags.settings;
  std::ranges::sort(settings);
  std::string key = "plan " + request.name + (request.flags.tune ? " tuned" : "");
  for (const std::string& setting : settings) {
    key += " " + setting;
  }
  return key;
}

std::vector<Request> remembered_requests(const CellStore& store, const ReproduceFlags& flags) {
  std::vector<Request> requests;
  for (const auto& [key, text] : store.kept_texts()) {
    if (!key.starts_with("plan ")) {
      continue;
    }
    Request request{.name = {}, .flags = {}};
    ReproduceFlags& old = request.flags;
    std::string tuned;
    std::istringstream lines(text);
    for (std::string* field : {&request.name, &old.environments, &old.policies, &old.rounds,
                               &old.seeds, &old.first_seed, &tuned}) {
      std::getline(lines, *field);
    }
    for (std::string setting; std::getline(lines, setting);) {
      old.settings.push_back(setting);
    }
    old.tune = !tuned.empty();
    old.stored_only = true;
    old.output = flags.output;
    old.data = flags.data;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Outcome {
  std::size_t missing = 0;
  std::size_t failed = 0;
};

// Runs a plan, or finds its finished runs, and makes its section of the page.
Section section_of(const Plan& plan, const ReproduceFlags& flags, const CellStore& store,
                   const std::shared_ptr<DataSource>& data, RunControl& control, Outcome& outcome) {
  const fs::path folder = fs::path(flags.output) / plan.name;
  if (plan.figure == Figure::kBreakdown) {
    return breakdown_section(folder, plan, flags.stored_only, store);
  }
  std::vector<std::string> notes;
  std::vector<Study> studies = playable(plan, data, notes);
  if (studies.empty()) {
    notes.push_back("the data of no environment is here");
    Section section{plan.name, plan.title, {}, {}, {}};
    section.notes = notes;
    return section;
  }
  if (flags.tune && plan.tuning.grids.empty()) {
    notes.push_back("nothing is tuned: the plan has no grid");
  }
  PlanRunOptions options{.cells = {.threads = plan.options.threads,
                                   .fresh = flags.fresh,
                                   .stored_only = flags.stored_only},
                         .tune = flags.tune};
  if (!flags.shard.empty()) {
    options.cells.shard = parse_shard(flags.shard);
  }
  ExperimentProgress progress;
  PlanResults results;
  control.rounds_done = 0;
  {
    const InterruptHandler handler(control);
    const ProgressDisplay display(control, progress);
    results = run_plan(plan, std::move(studies), store, options, control, progress);
  }
  if (!flags.stored_only) {
    fmt::print(stderr, "{}: {} runs, {} of them kept from before\n", plan.name,
               progress.cells_done.load(), progress.cells_kept.load());
  }
  outcome.missing += results.missing;
  outcome.failed += results.failed;
  if (control.stop) {
    fmt::print(stderr, "interrupted: finished runs are saved in {}\nthe same command goes on\n",
               store.path().string());
    throw CLI::RuntimeError(kInterrupted);
  }
  Section section = make_section(folder, plan, results);
  section.notes.insert(section.notes.end(), notes.begin(), notes.end());
  for (NamedTable& table : section.tables) {
    table.caption = without_folders(table.caption);
  }
  for (NamedPicture& picture : section.pictures) {
    picture.caption = without_folders(picture.caption);
  }
  for (std::string& note : section.notes) {
    note = without_folders(note);
  }
  return section;
}

// Sections of plans that were run before, beside those of this call.
void add_earlier(const ReproduceFlags& flags, const std::vector<Request>& requests,
                 const CellStore& store, const std::shared_ptr<DataSource>& data,
                 RunControl& control, std::vector<Section>& sections, std::vector<Plan>& plans) {
  for (const Request& old : remembered_requests(store, flags)) {
    if (std::ranges::any_of(
            requests, [&](const Request& request) { return key_of(request) == key_of(old); })) {
      continue;
    }
    try {
      Outcome ignored;
      const Plan plan = plan_of(old.name, old.flags);
      sections.push_back(section_of(plan, old.flags, store, data, control, ignored));
      plans.push_back(plan);
    } catch (const Error& error) {  // a plan's file that is no more
      fmt::print(stderr, "{} is not on the page: {}\n", old.name, error.what());
    }
  }
}

void reproduce(const ReproduceFlags& flags, const std::vector<Request>& requests) {
  std::vector<Plan> plans;
  for (const Request& request : requests) {
    plans.push_back(plan_of(request.name, request.flags));
  }
  check_settings(read_settings(flags.settings), plans);
  const fs::path output = flags.output;
  const CellStore store(output / kResultsFile, this_program());
  const std::shared_ptr<DataSource> data = data_source(flags.data);
  const fs::path page = output / "report.html";
  std::vector<Section> sections;
  Outcome outcome;
  RunControl control;
  const auto write_page = [&](const std::vector<Section>& all, const std::vector<Plan>& made) {
    write_text_file(page, html_page("mcnb: results", all, output, made_by(flags, made, store)));
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Plan& plan = plans[i];
    fmt::print(stderr, "{}\n", plan.name);
    sections.push_back(section_of(plan, requests[i].flags, store, data, control, outcome));
    show(sections.back(), output / plan.name);
    if (!flags.stored_only) {
      store.keep_text(key_of(requests[i]), remembered(requests[i].name, requests[i].flags));
    }
    write_page(sections, plans);
  }
  add_earlier(flags, requests, store, data, control, sections, plans);
  write_page(sections, plans);
  fmt::print("\npage     {}\nresults  {}\n", page.string(), store.path().string());
  if (outcome.missing > 0) {
    fmt::print(stderr, "{} runs are missing{}\n", outcome.missing,
               flags.shard.empty() ? ""
                                   : ": join the shards by mcnb results merge; where policies are "
                                     "tuned or matched, then run every shard again on the joined "
                                     "file");
  }
  if (outcome.failed > 0) {
    fmt::print(stderr, "{} runs failed: see the notes\n", outcome.failed);
    throw CLI::RuntimeError(kFailure);
  }
}

std::vector<Request> requests_of(const ReproduceFlags& flags) {
  std::vector<Request> requests;
  for (const std::string& name :
       flags.names == std::vector<std::string>{"all"} ? kPaper : flags.names) {
    requests.push_back({name, flags});
  }
  return requests;
}

// What a report is about: plans with the flags that are given, or else with those that they were
// run with, all of them where none is named.
std::vector<Request> reported(const ReproduceFlags& flags) {
  if (remembered("", flags) != remembered("", ReproduceFlags())) {
    ReproduceFlags all = flags;
    if (all.names.empty()) {
      all.names = {"all"};
    }
    return requests_of(all);
  }
  const CellStore store(fs::path(flags.output) / kResultsFile, this_program());
  std::vector<Request> requests = remembered_requests(store, flags);
  if (!flags.names.empty() && flags.names != std::vector<std::string>{"all"}) {
    std::erase_if(requests, [&](const Request& request) {
      return std::ranges::count(flags.names, request.name) == 0;
    });
  }
  if (requests.empty()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: no such plan has been run; mcnb reproduce runs it",
                            store.path().string()));
  }
  return requests;
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
                      "by `all`; matched-recommendation, matched-classification; or the path of a "
                      ".toml file of your own");
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
    reproduce(*flags, requests_of(*flags));
  });
}

void add_report(CLI::App& app) {
  auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* command =
      app.add_subcommand("report",
                         "Make tables, pictures and the page anew from finished runs, running "
                         "none. Without other flags "
                         "plans are reported as they were run, all of them where none is named");
  add_plan_flags(command, flags);
  command->callback([flags] {
    flags->stored_only = true;
    flags->command = command_line();
    if (!fs::exists(fs::path(flags->output) / kResultsFile)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: there are no results; mcnb reproduce makes them",
                              (fs::path(flags->output) / kResultsFile).string()));
    }
    reproduce(*flags, reported(*flags));
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
  reproduce(flags, requests_of(flags));
}

void add_reproduce_commands(CLI::App& app) {
  add_reproduce(app);
  add_report(app);
  add_results(app);
}

}  // namespace mcnb
