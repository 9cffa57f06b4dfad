#include "bench/serve_engine.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <optional>

#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/request_json.h"

namespace mcnb::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLogBytes = std::uint64_t{256} << 20;  // while the log is filled
constexpr std::uint64_t kPauseUsers = 2000;
constexpr std::uint64_t kDifferentRequests = 2000;

// The memory and disk space of a service.
struct Footprint {
  std::size_t memory = 0;  // peak so far
  std::uint64_t disk = 0;
};

Footprint footprint(const fs::path& folder) {
  Footprint now{.memory = peak_memory()};
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::error_code gone;  // the service may delete files meanwhile
    const std::uint64_t size = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
    now.disk += gone ? 0 : size;
  }
  return now;
}

// Runs the tasks and waits for all of them. Ends the process if the engine refuses one.
void run_tasks(Engine& engine, const std::vector<Task>& tasks) {
  std::atomic<std::size_t> left{tasks.size()};
  std::promise<void> all;
  for (const Task& task : tasks) {
    base_of(task).done = [&] {
      if (left.fetch_sub(1) == 1) {
        all.set_value();
      }
    };
  }
  for (const Task& task : tasks) {
    if (!engine.submit(task)) {
      ::_exit(1);
    }
  }
  all.get_future().wait();
}

// One decision and its reward for each request; `first` numbers the first event, and its user among
// `users`.
void decide_and_reward(Engine& engine, const std::vector<RankRequest>& requests,
                       std::uint64_t first, std::uint64_t users = ~std::uint64_t{0}) {
  std::vector<Task> ranks;
  std::vector<Task> rewards;
  for (std::uint64_t i = 0; i < requests.size(); ++i) {
    auto rank = std::make_shared<RankTask>();
    rank->model = "bench";
    rank->request = requests[i];
    rank->request.event_id = fmt::format("event-{}", first + i);
    rank->request.user_id = fmt::format("user-{}", (first + i) % users);
    ranks.push_back(rank);
    auto reward = std::make_shared<RewardTask>();
    reward->model = "bench";
    reward->reward = {rank->request.event_id, "", 0, static_cast<float>(i % 2)};
    rewards.push_back(reward);
  }
  run_tasks(engine, ranks);
  run_tasks(engine, rewards);
}

void tell_footprint(const fs::path& folder, int pipe) {
  const Footprint now = footprint(folder);
  if (::write(pipe, &now, sizeof now) != static_cast<ssize_t>(sizeof now)) {
    ::_exit(1);
  }
}

// Fills a log through the engine, then ends the process at once, without stopping the engine.
// Writes the footprint to `pipe` after half of the events and at the end. Runs in its own process.
[[noreturn]] void fill_log(const ServeBenchOptions& options, const fs::path& folder, int pipe) {
  SteadyClock clock;
  Metrics metrics;
  Engine engine({.folder = folder,
                 .threads = static_cast<std::size_t>(options.threads),
                 .log_bytes = kLogBytes},
                clock, metrics);
  const ModelOptions model = mcnb_options(options, options.groups);
  auto create = std::make_shared<ControlTask>();
  create->work = [&](ModelHost& host, Storage&, std::int64_t) { host.create("bench", model); };
  run_tasks(engine, {create});
  std::vector<RankRequest> requests;
  for (std::uint64_t i = 0; i < 256; ++i) {
    requests.push_back(read_rank(fmt::format(R"({{"userId":"u","actions":[{}]}})",
                                             actions_text(options.features, i, options.actions)),
                                 model, Dialect::kOwn));
  }
  bool told = false;
  for (std::uint64_t done = 0; done < options.restart_events; done += 2 * requests.size()) {
    if (!told && 2 * done >= options.restart_events) {
      tell_footprint(folder, pipe);
      told = true;
    }
    decide_and_reward(engine, requests, done);
  }
  tell_footprint(folder, pipe);
  ::_exit(0);
}

}  // namespace

void time_restart(const ServeBenchOptions& options, Report& report) {
  const Folder folder(options.output);
  const fs::path data = folder.path() / "restart";
  const double begin = now_seconds();
  int ends[2];
  if (::pipe(ends) != 0) {
    throw Error(ErrorKind::kSystem, "a pipe: the system refuses it");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    fill_log(options, data, ends[1]);
  }
  ::close(ends[1]);
  Footprint steps[2];
  const bool told = ::read(ends[0], &steps[0], sizeof steps[0]) == sizeof steps[0] &&
                    ::read(ends[0], &steps[1], sizeof steps[1]) == sizeof steps[1];
  ::close(ends[0]);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0 || !told) {
    throw Error(ErrorKind::kSystem, "the process that fills the log failed");
  }
  const double filled = now_seconds() - begin;
  const double start = now_seconds();
  SteadyClock clock;
  Metrics metrics;
  std::optional<Engine> engine;
  engine.emplace(
      EngineOptions{.folder = data, .threads = static_cast<std::size_t>(options.threads)}, clock,
      metrics);
  const double seconds = now_seconds() - start;
  LoadResult load;
  load.answers = 1;
  load.p50 = load.p99 = load.p999 = seconds;
  const double events = static_cast<double>(options.restart_events);
  report.add(fmt::format("restart after {} events", options.restart_events), events / filled, load,
             "asked for: < 30 s; per second: events when the log was filled");
  const auto mebibytes = [](auto bytes) { return static_cast<double>(bytes) / (1 << 20); };
  report.add(fmt::format("log of at most {:.0f} MiB, {} events", mebibytes(kLogBytes),
                         options.restart_events),
             0.0, {},
             fmt::format("most memory {:.0f} MiB, at half {:.0f}; disk {:.0f} MiB, at half {:.0f}",
                         mebibytes(steps[1].memory), mebibytes(steps[0].memory),
                         mebibytes(steps[1].disk), mebibytes(steps[0].disk)));
}

void find_longest_pause(const ServeBenchOptions& options, Report& report) {
  constexpr std::uint64_t kTogether = 4;
  const Folder folder(options.output);
  SteadyClock clock;
  Metrics metrics;
  // No snapshots: serialising one is a pause of another kind (docs/GUARANTEES.md).
  Engine engine({.folder = folder.path() / "pause", .threads = 1, .restart_seconds = 1e9}, clock,
                metrics);
  ModelOptions model;
  model.policy = parse_policy("hierarchical");
  auto create = std::make_shared<ControlTask>();
  create->work = [&](ModelHost& host, Storage&, std::int64_t) { host.create("bench", model); };
  run_tasks(engine, {create});
  const double begin = now_seconds();
  for (std::uint64_t done = 0; done < options.pause_rewards; done += kTogether) {
    Rng rng(1, Stream::kBenchmark, done);
    std::vector<RankRequest> requests(kTogether);
    for (RankRequest& request : requests) {
      request = read_rank(fmt::format(R"({{"userId":"u","actions":[{}]}})",
                                      actions_text(model.dimension, rng.below(kDifferentRequests),
                                                   options.actions)),
                          model, Dialect::kOwn);
    }
    decide_and_reward(engine, requests, done, kPauseUsers);
  }
  LoadResult load;
  load.answers = 1;
  load.p50 = load.p99 = load.p999 = metrics.longest_batch_seconds;
  report.add(
      fmt::format("longest batch, hierarchical, {} users", kPauseUsers),
      static_cast<double>(options.pause_rewards) / (now_seconds() - begin), load,
      fmt::format("asked for: < 5 ms; {} of the processor's time; {} fits beside it, the last "
                  "one took {:.1f} s",
                  milliseconds(metrics.longest_batch_processor_seconds), metrics.fits.load(),
                  metrics.last_fit_seconds.load()));
}

}  // namespace mcnb::bench
