#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/breakdown.h"
#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/data_folders.h"
#include "mcnb/cli/progress.h"
#include "mcnb/cli/requests.h"
#include "mcnb/experiment/experiment_policies.h"
#include "mcnb/experiment/page.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

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
  Section section{.name = plan.name, .title = plan.title};
  const std::string name = "table " + plan.name;
  const std::string made = "made " + name;
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
    store.keep_text(made, fmt::format("{} on {}", date(), this_machine()));
  }
  const std::map<std::string, std::string> texts = store.kept_texts();
  if (const auto found = texts.find(name); found != texts.end()) {
    section.tables.push_back({"bench-breakdown",
                              "Time of a round, part by part, beside the paper's, whose training "
                              "may take many steps where this one takes one",
                              unpacked(found->second)});
    if (const auto when = texts.find(made); when != texts.end()) {
      section.notes.push_back("measured " + when->second);
    }
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
    const bool is_no_path = word.find("://") != std::string::npos ||
                            word.find_first_not_of("0123456789/") == std::string::npos;  // a shard
    const std::size_t equals = word.find('=');
    if (slash != std::string::npos && !is_no_path && word != "/") {
      const std::string head = equals < slash ? word.substr(0, equals + 1) : "";
      word = head + word.substr(slash + 1);
    }
    all += (all.empty() ? "" : " ") + word;
  }
  return all;
}

// "140 on this, 20 on that".
std::string counts_text(const std::map<std::string, std::size_t>& counts, const char* before) {
  std::string text;
  for (const auto& [what, count] : counts) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", count, before, what);
  }
  return text;
}

// A plan that was made, by which command, how long its runs took, and where they come from.
struct Made {
  Plan plan;
  std::string command;
  double seconds;
  Origins origins;
};

// " on this machine, 2026-11-15 to 2026-11-16", as far as it is known.
std::string where_and_when(const Origins& origins) {
  std::string text;
  if (origins.machines.size() == 1) {
    text += " on " + origins.machines.begin()->first;
  } else if (!origins.machines.empty()) {
    text += ", " + counts_text(origins.machines, "on");
  }
  if (!origins.first_date.empty()) {
    text += ", " + origins.first_date;
    text += origins.last_date == origins.first_date ? "" : " to " + origins.last_date;
  }
  return text;
}

MadeBy made_by(const std::string& command, const std::vector<Made>& all, const CellStore& store) {
  MadeBy facts{
      {"page made", fmt::format("{} on {}", date(), this_machine())},
      {"version", this_program() + (this_program().ends_with("avx2") ? " (or avx512)" : "")},
      {"command", without_folders(command)},
      {"results", fmt::format("{}, {} runs", store.path().filename().string(), store.size())}};
  for (const auto& [plan, by, seconds, origins] : all) {
    std::string text;
    if (plan.figure != Figure::kBreakdown) {
      text = fmt::format("{} rounds, seeds {} to {}{}{}, ", plan.options.rounds,
                         plan.options.first_seed, plan.options.first_seed + plan.options.seeds - 1,
                         seconds > 0.0 ? ", runs of " + duration_text(seconds) + " in all" : "",
                         where_and_when(origins));
    }
    facts.emplace_back(
        fmt::format("{} {}", plan.name, without_folders(settings_of(plan))),
        text + "by " + (by.empty() ? "a command that was not kept" : without_folders(by)));
  }
  return facts;
}

// Environments whose data is not here are left out, and named; not where a report has runs of them.
std::vector<Study> playable(const Plan& plan, const std::shared_ptr<DataSource>& data,
                            const CellStore& store, bool stored_only,
                            std::vector<std::string>& notes) {
  std::vector<Study> all;
  Plan one = plan;
  for (const std::string& environment : plan.environments) {
    one.environments = {environment};
    try {
      std::vector<Study> studies = studies_of(one, data);
      for (const Study& study : studies) {
        if (!stored_only || !store.has_any_of(study.experiment.environment.name)) {
          source_text(study.experiment.environment);
        }
      }
      all.insert(all.end(), studies.begin(), studies.end());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) {
        throw;
      }
      fmt::print(stderr, "{} is left out: {}\n", environment, error.what());
      const std::string why = error.what();
      notes.push_back(fmt::format("{} is left out: {}", environment,
                                  without_folders(why.substr(0, why.find_first_of("\n;")))));
    }
  }
  return all;
}

struct Outcome {
  std::size_t without_data = 0;  // plans
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
  std::vector<Study> studies = playable(plan, data, store, flags.stored_only, notes);
  if (studies.empty()) {
    notes.push_back("the data of no environment is here");
    ++outcome.without_data;
    return {.name = plan.name,
            .title = plan.title,
            .settings = without_folders(settings_of(plan)),
            .notes = notes};
  }
  if (const OptionValues settings = read_settings(flags.settings);
      plan.axis && plan.axis->of_environment && settings.contains(plan.axis->option)) {
    notes.push_back(fmt::format("{} is not as set, but what the axis says", plan.axis->option));
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
    fmt::print(stderr, "{}: {} runs, {} of them kept from before; one by one they took {}\n",
               plan.name, progress.cells_done.load(), progress.cells_kept.load(),
               duration_text(results.seconds));
  }
  outcome.missing += results.missing;
  outcome.failed += results.failed;
  if (control.stop) {
    fmt::print(stderr, "interrupted: finished runs are saved in {}\nthe same command goes on\n",
               store.path().string());
    throw CLI::RuntimeError(kInterrupted);
  }
  Section section = make_section(folder, plan, results);
  section.settings = without_folders(settings_of(plan));
  if (const auto& programs = section.origins.programs;
      programs.size() > 1 || (programs.size() == 1 && !programs.contains(this_program()))) {
    notes.push_back("runs: " + counts_text(programs, "of build") +
                    (programs.contains(this_program()) ? "" : "; this one is " + this_program()));
  }
  if (const auto& machines = section.origins.machines; machines.size() > 1) {
    notes.push_back("runs: " + counts_text(machines, "on") + "; their seconds are not alike");
  }
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

// What this call makes, and what earlier ones did: the page.
struct Page {
  std::vector<Section> sections;
  std::vector<Made> made;

  void add(Section section, const Plan& plan, const std::string& command) {
    made.push_back({plan, command, section.seconds, section.origins});
    sections.push_back(std::move(section));
  }
};

void reproduce(const ReproduceFlags& flags, const std::vector<Request>& requests,
               const CellStore& store) {
  std::vector<Plan> plans;
  for (const Request& request : requests) {
    plans.push_back(plan_of(request));
  }
  check_settings(read_settings(flags.settings), plans);
  const fs::path output = flags.output;
  const std::shared_ptr<DataSource> data = data_source(flags.data);
  const fs::path path = output / "report.html";
  Page page;
  Outcome outcome;
  Outcome ignored;
  RunControl control;
  bool is_written = false;
  const auto write_page = [&] {
    is_written |= std::ranges::any_of(page.sections, [](const Section& section) {
      return !section.tables.empty() || !section.pictures.empty();
    });
    if (!is_written) {
      return;  // an earlier page may have something to show
    }
    write_text_file(path, html_page("mcnb: results", page.sections, output,
                                    made_by(flags.command, page.made, store)));
  };
  std::vector<Request> earlier = remembered_requests(store, flags);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    fmt::print(stderr, "{}\n", plans[i].name);
    // The page shows it beside what was made before for the same place.
    Request whole = request;
    const auto same = std::ranges::find_if(
        earlier, [&](const Request& old) { return key_of(plan_of(old)) == key_of(plans[i]); });
    const bool is_new = same == earlier.end();
    if (!is_new) {
      if (!flags.stored_only) {
        whole = joined(request, *same);
      }
      earlier.erase(same);
    }
    if (is_new && !flags.stored_only) {
      remember(store, whole);  // for reports of runs that are not yet complete
    }
    Section section = section_of(plans[i], request.flags, store, data, control, outcome);
    show(section, output / plans[i].name);
    if (whole.flags.environments != request.flags.environments) {
      whole.flags.stored_only = true;
      section = section_of(plan_of(whole), whole.flags, store, data, control, ignored);
    }
    page.add(std::move(section), plan_of(whole), request.flags.command);
    if (!flags.stored_only) {
      remember(store, whole);
    }
    write_page();
  }
  for (const Request& old : earlier) {
    try {
      const Plan plan = plan_of(old);
      page.add(section_of(plan, old.flags, store, data, control, ignored), plan, old.flags.command);
    } catch (const Error& error) {
      fmt::print(stderr, "{} is not on the page: {}\n", old.name, error.what());
    }
  }
  write_page();
  fmt::print("\npage     {}\nresults  {}\n",
             is_written ? path.string() : "none: there is nothing to show", store.path().string());
  if (outcome.missing > 0) {
    fmt::print(stderr, "{} missing{}\n",
               outcome.missing == 1 ? "1 run is" : fmt::format("{} runs are", outcome.missing),
               flags.shard.empty() ? ""
                                   : ": join the shards by mcnb results merge; where policies are "
                                     "tuned or matched, then run every shard again on the joined "
                                     "file");
  }
  if (flags.stored_only && !is_written) {
    throw CLI::RuntimeError(kFailure);
  }
  if (outcome.failed > 0) {
    fmt::print(stderr, "{} run{} failed: see the notes\n", outcome.failed,
               outcome.failed == 1 ? "" : "s");
    throw CLI::RuntimeError(kFailure);
  }
  if (outcome.without_data == requests.size()) {
    fmt::print(stderr, "nothing was made: the data of no environment is here\n");
    throw CLI::RuntimeError(kFailure);
  }
}

void reproduce(const ReproduceFlags& flags) {
  if (!flags.shard.empty()) {
    parse_shard(flags.shard);  // before anything is made
  }
  const std::vector<Request> requests = requests_of(flags);
  const CellStore store(fs::path(flags.output) / kResultsFile, this_program(), this_machine());
  reproduce(flags, requests, store);
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

// A flag that was given has a value: an empty one is a slip, not the plan's value.
void refuse_empty(CLI::App& command, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    command.get_option(flag)->check(
        [](const std::string& text) { return text.empty() ? "expected a value" : ""; });
  }
}

void add_plan_flags(CLI::App* command, const std::shared_ptr<ReproduceFlags>& flags,
                    const std::string& about_tuning) {
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
  command->add_flag("--tune", flags->tune, about_tuning);
  command->add_option("--data", flags->data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  command->add_option("--output", flags->output, "Folder for the results")->capture_default_str();
  refuse_empty(*command, {"--datasets", "--policies", "--rounds", "--seeds", "--first-seed"});
}

void add_reproduce(CLI::App& app) {
  auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* command = app.add_subcommand("reproduce", "Make the paper's figures, or your own");
  add_plan_flags(command, flags,
                 "First choose every policy's options by the plan's grid, on seeds of its own");
  command->add_option("--jobs", flags->jobs, "Runs side by side; 0: one per processor");
  command->add_option("--shard", flags->shard,
                      "Only this part of the runs, like 2/5; join the parts by mcnb results merge");
  refuse_empty(*command, {"--jobs", "--shard"});
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
  CLI::App* command =
      app.add_subcommand("report",
                         "Make tables, pictures and the page anew from finished runs, running "
                         "none. Without other flags "
                         "plans are reported as they were run, all of them where none is named");
  add_plan_flags(command, flags, "The plans as they were run with --tune");
  command->callback([flags] {
    flags->stored_only = true;
    flags->command = command_line();
    if (!fs::exists(fs::path(flags->output) / kResultsFile)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: there are no results; mcnb reproduce makes them",
                              (fs::path(flags->output) / kResultsFile).string()));
    }
    const CellStore store(fs::path(flags->output) / kResultsFile, this_program(), this_machine());
    reproduce(*flags, reported_requests(*flags, store), store);
  });
}

void add_results(CLI::App& app) {
  CLI::App* results = app.add_subcommand("results", "Files of finished runs");
  results->require_subcommand(1);
  CLI::App* merge = results->add_subcommand("merge", "Add the runs of other files to the first");
  auto files = std::make_shared<std::vector<std::string>>();
  auto first = std::make_shared<std::string>();
  merge->add_option("INTO", *first, "The file that gets the runs; made where it is not there")
      ->required();
  merge->add_option("FROM", *files, "Files whose runs it gets")->required();
  merge->callback([first, files] {
    for (const std::string& from : *files) {
      CellStore::expect_results(from);  // before INTO is made
    }
    const CellStore into(*first, this_program());
    for (const std::string& from : *files) {
      fmt::print("{}: {} runs added\n", from, into.merge(from));
    }
    fmt::print("{}: {} runs\n", *first, into.size());
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
