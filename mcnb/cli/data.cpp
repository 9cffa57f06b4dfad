#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/text_table.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/environment_flags.h"
#include "mcnb/data/sets/catalogue.h"
#include "mcnb/data/sets/download.h"
#include "mcnb/environment/data_source.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct DataFlags {
  std::string name;
  std::string data;
  std::vector<std::string> settings;
  TableFlags tables;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string kind_text(DataKind kind) {
  switch (kind) {
    case DataKind::kRatings:
      return "ratings";
    case DataKind::kLinks:
      return "links";
    case DataKind::kSamples:
      return "samples";
  }
  return "";
}

void list(const DataFlags& flags) {
  const std::vector<fs::path> roots = data_roots(flags.data);
  TextTable table({"data set", "kind", "found in", "what it is", "licence"});
  for (const DataSet& set : data_sets()) {
    const std::optional<FoundFiles> found = locate(set, roots);
    table.add_row({set.name, kind_text(set.kind), found ? found->folder.string() : "not here",
                   set.about, set.licence});
  }
  TableView view(flags.tables);
  view.show("data sets", table);
  view.say("\n");
  TextTable sources({"data set", "home page", "expected files (plain or .gz)"});
  for (const DataSet& set : data_sets()) {
    sources.add_row({set.name, set.home, expected_text(set)});
  }
  view.show("sources", sources);
  std::string folders;
  for (const fs::path& root : roots) {
    folders += " " + root.string();
  }
  view.say(fmt::format("\nlooked for in{}\n", folders));
  view.finish();
}

std::string count_text(const std::optional<std::uint64_t>& count) {
  return count ? std::to_string(*count) : "-";
}

// Adds one line to the comparison if the number is known on either side.
void add_count(TextTable& table, const std::string& what, const std::optional<std::uint64_t>& found,
               const std::optional<std::uint64_t>& published) {
  if (!found && !published) {
    return;
  }
  std::string verdict = "not published";
  if (found && published) {
    const double share = 100.0 * static_cast<double>(*found) / static_cast<double>(*published);
    verdict = *found == *published  ? "as published"
              : *found > *published ? "more than published"
              : share < 99.0        ? fmt::format("a part: {:.1f} %", share)
                                    : fmt::format("{} fewer", *published - *found);
  }
  table.add_row({what, count_text(found), count_text(published), verdict});
}

void check_set(const DataFlags& flags) {
  const DataSet& set = find_data_set(flags.name);
  const FoundFiles files = require_files(set, data_roots(flags.data));
  ThreadPool threads(0);
  const auto begin = Clock::now();
  DataCounts found;
  std::string report;
  if (set.kind == DataKind::kSamples) {
    const Samples samples = set.read_samples(files, threads);
    found = count(samples);
    report = fmt::format("{} numbers a sample; {}", samples.dimension, samples.report.text());
  } else {
    const Ratings ratings = set.read_ratings(files, threads);
    found = count(ratings, set.kind);
    report = ratings.report.text();
  }
  const double seconds = seconds_since(begin);
  TextTable table({set.name, "found", "published", "compared"});
  add_count(table, kind_text(set.kind), found.rows, set.published.rows);
  add_count(table, "users", found.users, set.published.users);
  add_count(table, "items", found.items, set.published.items);
  add_count(table, "classes", found.classes, set.published.classes);
  TableView view(flags.tables);
  view.show(set.name, table);
  view.say(fmt::format("\n{}\nread from {} in {:.2f} s\n", report, files.folder.string(), seconds));
  view.finish();
}

// Makes the environment twice: first to read and prepare the data, then to show how quickly it
// starts from now on.
void prepare(const DataFlags& flags) {
  bool first = true;
  std::set<fs::path> kept;
  const auto make = [&] {
    const auto begin = Clock::now();
    EnvironmentSpec spec = read_environment(flags.name, flags.settings, flags.data);
    spec.data = make_data_source(
        {.folders = spec.data->folders(), .prepared = prepared_folder(), .must_keep = true});
    const std::unique_ptr<Environment> environment = make_environment(spec, 1);
    const double seconds = seconds_since(begin);
    if (first) {
      fmt::print("{}: {}\n", flags.name, environment->description());
    }
    fmt::print("{} users, {} features; ready in {:.2f} s{}\n", environment->user_count(),
               environment->inputs(), seconds, first ? "" : " the second time");
    first = false;
    for (const fs::path& file : spec.data->kept_files()) {
      kept.insert(file);
    }
  };
  make();
  make();
  for (const fs::path& file : kept) {
    fmt::print("kept in {}\n", file.string());
  }
  if (kept.empty()) {
    fmt::print("nothing is kept: labelled samples are read from their files every time\n");
  }
}

volatile std::sig_atomic_t interrupted = 0;

// A bar on a terminal, a line every few seconds otherwise.
class DownloadDisplay {
 public:
  bool operator()(const DownloadProgress& progress) {
    const auto now = Clock::now();
    const std::chrono::duration<double> pause(terminal_ ? 0.2 : 5.0);
    if (now - last_ >= pause) {
      last_ = now;
      const double share = progress.total == 0 ? 0.0
                                               : 100.0 * static_cast<double>(progress.bytes) /
                                                     static_cast<double>(progress.total);
      fmt::print(stderr, "{}{}: {:.1f} MB{}{}", terminal_ ? "\r\033[K" : "", progress.url,
                 static_cast<double>(progress.bytes) / 1e6,
                 progress.total == 0 ? "" : fmt::format(", {:.0f} %", share),
                 terminal_ ? "" : "\n");
    }
    return interrupted == 0;
  }
  void end() const {
    if (terminal_) {
      fmt::print(stderr, "\r\033[K");
    }
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  Clock::time_point last_{};
};

void get(const DataFlags& flags) {
  const DataSet& set = find_data_set(flags.name);
  const std::vector<fs::path> roots = data_roots(flags.data);
  const std::optional<FoundFiles> found = locate(set, roots);
  if (found && is_whole(*found)) {
    fmt::print("{} is here already: {}\n", set.name, found->folder.string());
    return;
  }
  const fs::path folder = found ? found->folder : roots.front() / set.folders.front();
  require_downloads(set, folder);
  fmt::print(stderr, "fetching {} into {}; licence: {}\n", set.name, folder.string(), set.licence);
  std::signal(SIGINT, [](int) { interrupted = 1; });
  DownloadDisplay display;
  ThreadPool threads(0);
  const bool finished = download(set, folder, threads, std::ref(display));
  display.end();
  std::signal(SIGINT, SIG_DFL);
  if (!finished) {
    fmt::print(stderr, "interrupted: the same command goes on from here\n");
    throw CLI::RuntimeError(kInterrupted);
  }
  fmt::print("{} is in {}\n", set.name, folder.string());
}

CLI::App* add_data_command(CLI::App& data, const char* name, const char* help,
                           const std::shared_ptr<DataFlags>& flags, bool named) {
  CLI::App* command = data.add_subcommand(name, help);
  if (named) {
    command->add_option("name", flags->name, "The data set; see mcnb data list")->required();
  }
  command->add_option("--data", flags->data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  return command;
}

}  // namespace

void add_data_commands(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Find, check and fetch data sets");
  data->require_subcommand(1);
  auto flags = std::make_shared<DataFlags>();
  CLI::App* listing =
      add_data_command(*data, "list", "Every known data set, and whether it is here", flags, false);
  add_table_view_flags(*listing, flags->tables);
  listing->callback([flags] { list(*flags); });
  CLI::App* checking = add_data_command(
      *data, "check", "Read a data set and compare it with what is published", flags, true);
  add_table_view_flags(*checking, flags->tables);
  checking->callback([flags] { check_set(*flags); });
  CLI::App* preparing = add_data_command(
      *data, "prepare", "Read a data set and keep it ready for environments", flags, true);
  preparing->add_option("--set", flags->settings, "Options of the environment, name=value")
      ->expected(1)
      ->take_all();
  preparing->callback([flags] { prepare(*flags); });
  add_data_command(*data, "get", "Fetch a data set from its home", flags, true)->callback([flags] {
    get(*flags);
  });
}

}  // namespace mcnb
