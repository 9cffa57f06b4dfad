#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/environment_flags.h"
#include "mcnb/cli/plan_flags.h"
#include "mcnb/cli/progress.h"
#include "mcnb/cli/report_display.h"
#include "mcnb/experiment/report/kept_section.h"
#include "mcnb/experiment/report/report.h"
#include "mcnb/experiment/results/results_csv.h"
#include "mcnb/experiment/results/table_numbers.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Flags that only `mcnb reproduce` has.
struct RunningFlags {
  std::string jobs;
  std::string device = "cpu";
  bool fresh = false;
};

ReportOptions read_options(const PlanFlags& flags, const RunningFlags& running) {
  ReportOptions options{
      .folder = flags.output, .data = data_source(flags.data), .fresh = running.fresh};
  if (!running.jobs.empty()) {
    options.jobs = parse_count("jobs", {0, 1024}, running.jobs);
  }
  options.device = parse_device(running.device);
  options.command = command_line();
  return options;
}

// Makes the report, prints how it ended, and ends the program with an error if runs failed.
void make(const std::vector<PlanRequest>& requests, const CellStore& store,
          const ReportOptions& options, const TableFlags& tables) {
  ReportDisplay display(tables);
  const ReportOutcome outcome = make_report(requests, store, options, display);
  if (outcome.interrupted) {
    end_interrupted(display.finished(), display.total(), store.name());
  }
  display.view().say(fmt::format("\npage     {}\nresults  {}\n",
                                 outcome.has_page ? (options.folder / "report.html").string()
                                                  : "none: there is nothing to show",
                                 store.name()));
  display.view().finish();
  if (outcome.missing > 0) {
    fmt::print(stderr, "{} missing\n", runs_are(outcome.missing));
  }
  if (outcome.failed > 0) {
    fmt::print(stderr, "{} run{} failed: see the notes\n", outcome.failed,
               outcome.failed == 1 ? "" : "s");
  }
  const bool has_no_data = !requests.empty() && outcome.without_data == requests.size();
  if (has_no_data) {
    fmt::print(stderr, "nothing was made: the data of no environment is here\n");
  }
  if (outcome.failed > 0 || has_no_data || (options.stored_only && !outcome.has_page)) {
    throw CLI::RuntimeError(kFailure);
  }
}

void reproduce(const PlanFlags& flags, const RunningFlags& running) {
  const ReportOptions options = read_options(flags, running);
  const std::vector<PlanRequest> requests = requests_of(flags);
  const CellStore store(results_of(flags.results, flags.output), this_program(), this_machine());
  make(requests, store, options, flags.tables);
}

void add_reproduce(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  auto running = std::make_shared<RunningFlags>();
  CLI::App* command = app.add_subcommand("reproduce", "Make the paper's figures, or your own");
  add_plan_flags(*command, *flags,
                 "First choose the options of every policy by the plan's grid, with seeds that are "
                 "not reported");
  command->add_option("--jobs", running->jobs, "Runs at the same time; 0: one per processor");
  refuse_empty(*command, {"--jobs"});
  add_device_flag(*command, running->device);
  command->add_flag("--fresh", running->fresh, "Run again what has been run before");
  command->footer(
      "Plans are the files experiments/*.toml: copy one, change it, and give its path. Finished\n"
      "runs are kept in OUTPUT/results.sqlite: after an interruption the same command goes on. "
      "With\n"
      "--results postgresql://... any number of machines run the same command: each run is made "
      "by\n"
      "one of them, and all make the same page.");
  command->callback([flags, running] {
    if (flags->names.empty()) {
      refuse_option("NAME", "names of plans, or all", "");
    }
    reproduce(*flags, *running);
  });
}

// The remembered requests that are named; all of them without names. Throws Error (kInput) for a
// name that was not run.
std::vector<PlanRequest> named_requests(const std::vector<std::string>& names,
                                        const std::vector<RememberedRequest>& remembered,
                                        const CellStore& store) {
  const bool all = names.empty() || names == std::vector<std::string>{"all"};
  std::vector<PlanRequest> requests;
  std::set<std::string> found;
  for (const auto& [key, request] : remembered) {
    const auto name = std::ranges::find_if(names, [&](const std::string& wanted) {
      return fs::path(wanted).stem() == fs::path(request.name).stem();
    });
    if (all || name != names.end()) {
      requests.push_back(request);
      found.insert(all ? "" : *name);
    }
  }
  for (const std::string& name : all ? std::vector<std::string>{""} : names) {
    if (!found.contains(name)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: no plan{} has been run; mcnb reproduce runs it", store.name(),
                              name.empty() ? "" : " " + name));
    }
  }
  return requests;
}

// Plans with the flags that are given, or else with those that they were run with.
std::vector<PlanRequest> reported_requests(PlanFlags flags, const CellStore& store) {
  const RememberedRequests remembered = remembered_requests(store);
  if (!flags.change_plans()) {
    return named_requests(flags.names, remembered.all, store);
  }
  if (flags.names.empty()) {
    flags.names = {"all"};
  }
  PlanTexts texts;
  for (const auto& [key, request] : remembered.all) {
    texts[fs::path(request.name).stem().string()] = request.text;
  }
  return requests_of(flags, texts);
}

void report(const PlanFlags& flags) {
  ReportOptions options = read_options(flags, {});
  options.stored_only = true;
  const std::string results = results_of(flags.results, flags.output);
  const bool is_there = is_postgres_url(results) || fs::exists(results);
  const bool evaluations_alone =
      flags.names.empty() && !is_there && !kept_sections(options.folder).empty();
  if (!is_there && !evaluations_alone) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: there are no results; mcnb reproduce makes them", results));
  }
  const CellStore store(results, this_program(), this_machine());
  make(evaluations_alone ? std::vector<PlanRequest>{} : reported_requests(flags, store), store,
       options, flags.tables);
}

void add_report(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Make tables, pictures and the page again from finished runs. It runs nothing. Without names "
      "it reports all plans that were run; without other flags, as they were run");
  add_plan_flags(*command, *flags, "Report the plans as they were run with --tune");
  auto csv = std::make_shared<std::string>();
  CLI::Option* from_csv = command->add_option(
      "--csv", *csv, "Print Markdown tables of this results file (docs/results.csv) instead");
  for (CLI::Option* other : command->get_options()) {
    if (other != from_csv && other->get_name() != "--help") {
      from_csv->excludes(other);
    }
  }
  command->callback([flags, csv] {
    if (csv->empty()) {
      report(*flags);
    } else {
      fmt::print("{}", results_markdown(read_results_csv(*csv)));
    }
  });
}

void add_results(CLI::App& app) {
  CLI::App* results = app.add_subcommand("results", "Files and databases of finished runs");
  results->require_subcommand(1);
  CLI::App* merge = results->add_subcommand(
      "merge", "Add the runs of other files, or of databases (postgresql://...), to the first");
  auto files = std::make_shared<std::vector<std::string>>();
  auto first = std::make_shared<std::string>();
  merge
      ->add_option("INTO", *first,
                   "The file or database that gets the runs; it is made if it does not exist")
      ->required();
  merge->add_option("FROM", *files, "Files or databases whose runs are added")->required();
  merge->callback([first, files] {
    for (const std::string& from : *files) {
      CellStore::expect_results(from);  // before INTO is made
    }
    const CellStore into(*first, this_program());
    for (const std::string& from : *files) {
      const std::size_t added = into.merge(from);
      fmt::print("{}: {} runs added\n", is_postgres_url(from) ? postgres_name(from) : from, added);
    }
    fmt::print("{}: {} runs\n", into.name(), into.size());
  });
}

}  // namespace

void run_plan_file(const std::string& path, const std::string& output, const std::string& results,
                   const std::string& data, bool fresh, const TableFlags& tables) {
  PlanFlags flags;
  flags.tables = tables;
  flags.names = {path};
  flags.output = output;
  flags.results = results;
  flags.data = data;
  reproduce(flags, {.fresh = fresh});
}

void add_reproduce_commands(CLI::App& app) {
  add_reproduce(app);
  add_report(app);
  add_results(app);
}

}  // namespace mcnb
