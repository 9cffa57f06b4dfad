#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/data_folders.h"
#include "mcnb/experiment/contestants.h"
#include "mcnb/experiment/experiment.h"
#include "mcnb/experiment/plot.h"
#include "mcnb/experiment/report.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

using Clock = std::chrono::steady_clock;

// The flags as they were typed; the option tables read and check them.
struct RunFlags {
  std::string environment = "synthetic";
  std::string policies = "mcnb,linucb,random";
  std::vector<std::string> settings;          // of the environment
  std::map<std::string, std::string> values;  // of ExperimentOptions
  std::string output = "results/run";
  std::string data;
  bool fresh = false;
};

RunControl* interrupted_run = nullptr;

// Ctrl-C: stop between two rounds. A second one ends the program at once.
class InterruptHandler {
 public:
  explicit InterruptHandler(RunControl& control) {
    static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");
    interrupted_run = &control;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted_run->stop.store(true, std::memory_order_relaxed); };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptHandler() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;

 private:
  struct sigaction before_ {};
};

// Results of another build of this program, or of another instruction set, are not ours.
std::string this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary | std::ios::ate);
  std::string bytes(static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0)), '\0');
  file.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return fmt::format("{} {:016x} {}", MCNB_VERSION, XXH3_64bits(bytes.data(), bytes.size()),
                     kernels::simd_target());
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  }
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

// Shows on standard error how far the experiment is: a bar on a terminal, else now and then a line.
class ProgressDisplay {
 public:
  ProgressDisplay(const RunControl& control, const ExperimentProgress& progress)
      : control_(control),
        progress_(progress),
        terminal_(::isatty(STDERR_FILENO) == 1),
        start_(Clock::now()),
        thread_([this] { watch(); }) {}
  ~ProgressDisplay() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
    if (terminal_) {
      show();
      fmt::print(stderr, "\n");
    }
  }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

 private:
  void watch() {
    const auto pause = terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, pause, [this] { return ended_; })) {
      show();
    }
  }

  void show() const {
    const auto total = static_cast<double>(progress_.rounds_total.load());
    const auto done = static_cast<double>(control_.rounds_done.load());
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (total == 0.0 || done == 0.0) {
      return;
    }
    const double share = std::min(1.0, done / total);
    const std::string text =
        fmt::format("{:3.0f} %  {} of {} runs  {:.0f} rounds/s  {} left", 100.0 * share,
                    progress_.cells_done.load(), progress_.cells_total.load(), done / seconds,
                    duration_text((total - done) * seconds / done));
    if (!terminal_) {
      fmt::print(stderr, "{}\n", text);
      return;
    }
    constexpr int kBarWidth = 30;
    std::string bar;
    for (int i = 0; i < kBarWidth; ++i) {
      bar += i < static_cast<int>(share * kBarWidth + 0.5) ? "█" : "░";
    }
    fmt::print(stderr, "\r{} {}\x1b[K", bar, text);
    std::fflush(stderr);
  }

  const RunControl& control_;
  const ExperimentProgress& progress_;
  bool terminal_;
  Clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

Experiment read_experiment(const RunFlags& flags) {
  Experiment experiment{
      .environment = read_environment(flags.environment, flags.settings, flags.data),
      .policies = parse_policies(flags.policies),
      .options = {}};
  set_from_flags(experiment_option_table(), flags.values, experiment.options);
  // Finds contradictions before anything is run.
  experiment.description =
      make_environment(experiment.environment, experiment.options.first_seed)->description();
  if (!experiment.description.empty()) {
    fmt::print(stderr, "{}: {}\n", flags.environment, experiment.description);
  }
  return experiment;
}

void write_report(const std::filesystem::path& folder, const Experiment& experiment,
                  const std::vector<CellResult>& results) {
  const std::vector<PolicySummary> summaries = summarise(experiment, results);
  const std::string table = summary_for_people(summaries).aligned();
  write_text_file(folder / "table.txt", table);
  write_text_file(folder / "summary.csv", summary_for_machines(summaries).csv());
  write_text_file(folder / "curves.csv", curves_table(results).csv());
  write_text_file(folder / "results.json", report_json(experiment, summaries, results));
  fmt::print("{}\ntable    {}\n", table, (folder / "table.txt").string());
  fmt::print("numbers  {}, curves.csv, results.json\n", (folder / "summary.csv").string());
  try {
    const PlotFiles files = draw_plot(folder, experiment, results);
    fmt::print("picture  {}, {}\n", files.png.string(), files.svg.filename().string());
  } catch (const Error& error) {
    fmt::print("picture  none\n");
    fmt::print(stderr, "mcnb: no picture: {}\n", error.what());
  }
}

void run(const RunFlags& flags) {
  const Experiment experiment = read_experiment(flags);
  const std::filesystem::path folder = flags.output;
  const CellStore store(folder / "cells", this_program());
  RunControl control;
  ExperimentProgress progress;
  std::vector<CellResult> results;
  {
    const InterruptHandler handler(control);
    const ProgressDisplay display(control, progress);
    results = run_experiment(experiment, store, flags.fresh, control, progress);
  }
  if (progress.cells_kept > 0) {
    fmt::print(stderr, "{} of {} runs kept from before (--fresh runs them again)\n",
               progress.cells_kept.load(), progress.cells_total.load());
  }
  if (results.size() < progress.cells_total) {
    fmt::print(stderr,
               "interrupted: {} of {} runs are finished and saved in {}\n"
               "the same command goes on from there\n",
               results.size(), progress.cells_total.load(), (folder / "cells").string());
    throw CLI::RuntimeError(kInterrupted);
  }
  write_report(folder, experiment, results);
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
  command->add_flag("--fresh", flags->fresh, "Run again what has been run before");
  command->footer(
      "Finished runs are kept in the output folder: after an interruption the same command goes\n"
      "on from there.");
  command->callback([flags] { run(*flags); });
}

}  // namespace mcnb
