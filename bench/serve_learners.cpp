#include "bench/serve_learners.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/base/random.h"
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

// Makes a data folder whose model has so many learners, each from a sample of its own.
void make_state(const ServeBenchOptions& options, const fs::path& folder, const ModelOptions& kind,
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
  SavedState state(model, storage->log().id(), kMostCopied);
  storage->snapshots().write(kModel, 1, [&] { return state.next(); });
}

// Bytes of this process in memory, and of its children what they do not share with it.
double memory_in_use() {
  double bytes = static_cast<double>(resident_memory());
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

struct SnapshotLoad {
  LoadResult snapshots;
  double most_memory = 0.0;
};

// Asks for one snapshot after the other, until `seconds` have passed.
SnapshotLoad take_snapshots(std::uint16_t port, double seconds) {
  SnapshotLoad load;
  const std::jthread watch([&load](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      load.most_memory = std::max(load.most_memory, memory_in_use());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  load.snapshots = put_load(port, {.seconds = seconds, .next = [](std::size_t, const std::string&) {
                                     return Exchange{post("/v1/models/bench/snapshot", "{}")};
                                   }});
  return load;
}

// Without HTTP and without a log: the users arrive, and then some of them ask.
void measure_idle(const ServeBenchOptions& options, const ModelOptions& kind, std::uint64_t users,
                  Report& report) {
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
  report.add(fmt::format("{} users without feedback, {}", users, kind.policy.name), 0.0, {},
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

void measure(const ServeBenchOptions& options, const ModelOptions& kind, std::uint64_t users,
             Report& report) {
  const Folder folder(options.output);
  const std::string learners = fmt::format("{} learners, {}", users, kind.policy.name);
  const double begin = now_seconds();
  make_state(options, folder.path() / "learners", kind, users);
  const double made = now_seconds();
  ::malloc_trim(0);
  const auto before = static_cast<double>(resident_memory());
  ServerOptions settings = server_options(options, folder.path() / "learners", kind);
  settings.idle_seconds = kPatience;
  settings.wait_seconds = kPatience;
  settings.decision_seconds = kPatience;
  settings.restart_seconds = 10.0 * kPatience;  // snapshots only when they are asked for
  Server server(settings);
  const double started = now_seconds();
  const double state = static_cast<double>(resident_memory()) - before;
  report.add(fmt::format("state of {}", learners), 0.0, {},
             fmt::format("made in {:.1f} s, started in {:.1f} s; {:.0f} bytes a learner",
                         made - begin, started - made, state / static_cast<double>(users)));
  Client client(options, users, options.actions);
  const LoadResult alone = ranks(server.port(), options, options.connections, client);
  report.add(fmt::format("decisions, {}, {} connections", learners, options.connections),
             rate(alone), alone,
             kind.policy.name == "mcnb" ? scan_note(options, users, rate(alone)) : "");
  const LoadResult rewarded = both(server.port(), options, options.connections, client);
  report.add(
      fmt::format("decisions while as many rewards come, {}", learners), rate(rewarded), rewarded,
      fmt::format("{} of those without; then {:.0f} bytes a learner",
                  percent(rate(rewarded) / rate(alone)),
                  (static_cast<double>(resident_memory()) - before) / static_cast<double>(users)));
  const auto loaded = static_cast<double>(resident_memory());
  SnapshotLoad other;
  LoadResult beside;
  {
    const std::jthread snapshots([&] { other = take_snapshots(server.port(), options.seconds); });
    beside = both(server.port(), options, options.connections, client);
  }
  report.add("the same beside snapshots", rate(beside), beside,
             fmt::format("p99.9 {:.1f} times that without; {} snapshots, one takes {:.2f} s; at "
                         "most {} of the state more memory",
                         beside.p999 / rewarded.p999, other.snapshots.answers, other.snapshots.p50,
                         percent(std::max(other.most_memory - loaded, 0.0) / state)));
}

}  // namespace

void measure_learners(const ServeBenchOptions& options, std::uint64_t users, Report& report) {
  for (const std::string& policy : options.policies) {
    const ModelOptions kind = options_for(
        options, users, policy == "mcnb" ? mcnb_policy(options, options.policy) : policy);
    measure_idle(options, kind, users, report);
    measure(options, kind, users, report);
  }
}

}  // namespace mcnb::bench
