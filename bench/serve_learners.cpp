#include "bench/serve_learners.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <thread>

#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/base/random.h"
#include "mcnb/serve/engine/clock.h"
#include "mcnb/serve/engine/saved_state.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kModel = 1;
constexpr double kPatience = 3600.0;  // seconds that a request may wait
constexpr std::size_t kIdleBatch = 64;

std::string user_name(std::uint64_t number) { return fmt::format("user-{}", number); }

// A sample of a user, of unit length like the arms of the service.
std::vector<float> arm_of(const ServeBenchOptions& options, std::uint64_t user) {
  Rng rng(2, Stream::kBenchmark, user);
  std::vector<float> arm(static_cast<std::size_t>(options.features));
  double squares = 0.0;
  for (float& value : arm) {
    value = static_cast<float>(rng.normal());
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
  std::ranges::transform(arm, arm.begin(), [scale](float value) { return value * scale; });
  return arm;
}

ModelOptions options_for(const ServeBenchOptions& options, std::uint64_t users,
                         const std::string& policy) {
  ModelOptions model = model_options(options, 0, policy);
  model.most_users = users;
  bound_histories(model);
  return model;
}

// For how long a service would make decisions wait at the beginning of a snapshot, in seconds.
struct Pause {
  double elapsed = 0.0;
  double processor = 0.0;  // without the time in which other programs ran
};

// Makes a data folder whose model has so many learners, each from a sample of its own.
Pause make_state(const ServeBenchOptions& options, const fs::path& folder, const ModelOptions& kind,
                 std::uint64_t users) {
  ThreadPool threads(1);
  Model model(kind, threads);
  const Expiry nothing{1, 0};  // an event without effect: a snapshot is of a row of the log
  model.apply(nothing, 1);
  for (std::uint64_t user = 0; user < users; ++user) {
    const std::vector<float> arm = arm_of(options, user);
    model.prepare(user_name(user), {{arm}, static_cast<float>(user % 2)});
  }
  const std::unique_ptr<Storage> storage = open_data_folder(folder, StorageAccess::kOwn);
  Batch batch;
  batch.models.emplace_back(StoredModel{kModel, "bench", option_values(kind), true, 0});
  batch.rows.push_back({kModel, 1, EventKind::kExpiry, 1, 0, encode_event(nothing)});
  storage->log().commit(batch);
  storage->log().acknowledge();
  SteadyClock clock;
  const double begin = now_seconds();
  const double used = clock.processor_seconds();
  SavedState state(model, storage->log().id(), kMostCopied);
  const Pause pause{now_seconds() - begin, clock.processor_seconds() - used};
  if (state.in_pieces()) {
    storage->snapshots().write_pieces(kModel, 1, state.pieces());
  } else {
    storage->snapshots().write(kModel, 1, [&] { return state.next(); });
  }
  return pause;
}

// Bytes in memory of the children of this process, without what they share with it: their own, and
// what was copied for one of the two because the other has changed it.
double memory_of_children() {
  double bytes = 0.0;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    std::ifstream children(thread.path() / "children");
    for (std::string child; children >> child;) {
      std::ifstream pages("/proc/" + child + "/smaps_rollup");
      for (std::string word; pages >> word;) {
        double kilobytes = 0.0;
        if (word.starts_with("Private_") && pages >> kilobytes) {
          bytes += 1024.0 * kilobytes;
        }
      }
    }
  }
  return bytes;
}

// Bytes of the snapshots of a data folder, by their files.
std::map<fs::path, std::uintmax_t> snapshot_files(const fs::path& folder) {
  std::map<fs::path, std::uintmax_t> files;
  for (const auto& entry : fs::directory_iterator(folder / "snapshots")) {
    std::error_code removed;
    const std::uintmax_t size = entry.file_size(removed);
    if (!removed && entry.path().extension() != ".part") {
      files[entry.path()] = size;
    }
  }
  return files;
}

struct SnapshotLoad {
  LoadResult snapshots;
  double memory = 0.0;   // bytes, at most, in excess of what the models keep
  double written = 0.0;  // bytes of the files that the snapshots made
};

// Asks for one snapshot after the other, until `seconds` have passed or there are so many (0: any
// number).
SnapshotLoad take_snapshots(std::uint16_t port, const fs::path& folder, double seconds,
                            std::uint64_t most) {
  SnapshotLoad load;
  double most_of_children = 0.0;
  double most_resident = 0.0;
  std::jthread watch([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      most_of_children = std::max(most_of_children, memory_of_children());
      most_resident = std::max(most_resident, static_cast<double>(resident_memory()));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  std::map<fs::path, std::uintmax_t> before = snapshot_files(folder);
  const auto count_written = [&] {
    std::map<fs::path, std::uintmax_t> now = snapshot_files(folder);
    for (const auto& [file, size] : now) {
      load.written += before.contains(file) ? 0.0 : static_cast<double>(size);
    }
    before = std::move(now);
  };
  load.snapshots = put_load(
      port, {.seconds = seconds, .requests = most, .next = [&](std::size_t, const std::string&) {
               count_written();
               return Exchange{post("/v1/models/bench/snapshot", "{}")};
             }});
  count_written();
  watch.request_stop();
  watch.join();
  load.memory = most_of_children + most_resident - static_cast<double>(resident_memory());
  return load;
}

// Without HTTP and without a log: the users arrive, and then some of them ask.
void measure_idle(const ServeBenchOptions& options, const ModelOptions& kind,
                  const std::string& policy, std::uint64_t users, Report& report) {
  ::malloc_trim(0);
  const auto before = static_cast<double>(resident_memory());
  ThreadPool threads(options.threads);
  Model model(kind, threads);
  for (std::uint64_t user = 0; user < users; ++user) {
    model.apply(Arrival{model.user_key(user_name(user))}, user + 1);
  }
  std::vector<RankRequest> requests;
  std::vector<const RankRequest*> batch;
  for (std::uint64_t user = 0; user < std::min<std::uint64_t>(kIdleBatch, users); ++user) {
    requests.push_back(read_rank(fmt::format(R"({{"userId":"{}","actions":[{}]}})", user_name(user),
                                             actions_text(options.features, user, options.actions)),
                                 kind, Dialect::kOwn));
  }
  for (const RankRequest& request : requests) {
    batch.push_back(&request);
  }
  model.decide(batch, 1);
  const double each =
      (static_cast<double>(resident_memory()) - before) / static_cast<double>(users);
  report.add(fmt::format("{} users without feedback, {}", users, policy), 0.0, {},
             fmt::format("asked for: 600 bytes each; {:.0f} resident after a batch of {} "
                         "decisions, memoryBytes {:.0f}",
                         each, batch.size(),
                         static_cast<double>(model.memory_bytes()) / static_cast<double>(users)));
}

// How near so many decisions a second are to the processor's peak, if each reads every network.
std::string scan_note(const ServeBenchOptions& options, std::uint64_t users, double per_second) {
  ThreadPool threads(options.threads);
  const double peak = measure_fma_peak(threads, 1.0);
  const double parameters = static_cast<double>(options.width * (options.features + 1));
  const double operations = 2.0 * parameters * static_cast<double>(users * options.actions);
  return fmt::format("{} of the {:.1f}/s at the processor's peak if all networks are evaluated",
                     percent(per_second * operations / peak), peak / operations);
}

struct Case {
  const ServeBenchOptions& options;
  fs::path folder;
  std::uint16_t port = 0;
  double state = 0.0;  // bytes
};

// Decisions and rewards beside snapshots, at most so many. Compares with the same load without
// them.
void measure_snapshots(const Case& service, const std::string& what, std::uint64_t most,
                       Client& client, const LoadResult& without, Report& report) {
  SnapshotLoad other;
  LoadResult beside;
  {
    const std::jthread snapshots([&] {
      other = take_snapshots(service.port, service.folder, service.options.seconds, most);
    });
    beside = both(service.port, service.options, service.options.connections, client);
  }
  const auto count = static_cast<double>(other.snapshots.answers);
  report.add(what, rate(beside), beside,
             fmt::format("p99.9 {:.1f} times that without; {} of them, each takes {:.2f} s and "
                         "writes {:.1f} MB; at most {} of the state more memory",
                         beside.p999 / without.p999, other.snapshots.answers,
                         other.snapshots.seconds / count, other.written / count / 1e6,
                         percent(other.memory / service.state)));
}

void measure(const ServeBenchOptions& options, const ModelOptions& kind, const std::string& policy,
             std::uint64_t users, Report& report) {
  const Folder folder(options.output);
  Case service{options, folder.path() / "learners"};
  const std::string learners = fmt::format("{} learners, {}", users, policy);
  const double begin = now_seconds();
  const Pause pause = make_state(options, service.folder, kind, users);
  const double made = now_seconds();
  ::malloc_trim(0);
  const auto before = static_cast<double>(resident_memory());
  ServerOptions settings = server_options(options, service.folder, kind);
  settings.idle_seconds = kPatience;
  settings.wait_seconds = kPatience;
  settings.decision_seconds = kPatience;
  settings.restart_seconds = 10.0 * kPatience;  // snapshots only when they are asked for
  Server server(settings);
  const double started = now_seconds();
  service.port = server.port();
  service.state = static_cast<double>(resident_memory()) - before;
  report.add(fmt::format("state of {}", learners), 0.0, {},
             fmt::format("made in {:.1f} s, started in {:.1f} s; {:.0f} bytes a learner; decisions "
                         "wait for {:.1f} ms when a snapshot begins, {:.1f} ms of the processor",
                         made - begin, started - made, service.state / static_cast<double>(users),
                         1e3 * pause.elapsed, 1e3 * pause.processor));
  Client client(options, users, options.actions);
  const LoadResult alone = ranks(service.port, options, options.connections, client);
  report.add(fmt::format("decisions, {}, {} connections", learners, options.connections),
             rate(alone), alone,
             kind.policy.name == "mcnb" ? scan_note(options, users, rate(alone)) : "");
  const LoadResult rewarded = both(service.port, options, options.connections, client);
  report.add(
      fmt::format("decisions while as many rewards come, {}", learners), rate(rewarded), rewarded,
      fmt::format("{} of those without; then {:.0f} bytes a learner",
                  percent(rate(rewarded) / rate(alone)),
                  (static_cast<double>(resident_memory()) - before) / static_cast<double>(users)));
  // Of the two snapshots that are kept each goes on from its predecessor: so the first is whole.
  measure_snapshots(service, "the same beside a whole snapshot", 1, client, rewarded, report);
  measure_snapshots(service, "the same beside later snapshots", 0, client, rewarded, report);
}

}  // namespace

void measure_learners(const ServeBenchOptions& options, std::uint64_t users, Report& report) {
  for (const std::string& policy : options.policies) {
    std::string text = policy;
    if (policy == "mcnb" || policy.starts_with("mcnb:")) {
      const std::string own = policy.substr(std::min<std::size_t>(policy.size(), 5));
      text = mcnb_policy(options,
                         options.policy + (own.empty() || options.policy.empty() ? "" : ":") + own);
    }
    const ModelOptions kind = options_for(options, users, text);
    measure_idle(options, kind, policy, users, report);
    measure(options, kind, policy, users, report);
  }
}

}  // namespace mcnb::bench
