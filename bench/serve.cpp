#include "bench/serve.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <future>
#include <optional>

#include "bench/limits.h"
#include "bench/load_client.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/random.h"
#include "mcnb/base/text_table.h"
#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/server.h"
#include "mcnb/serve/store/sqlite_log_store.h"

namespace mcnb::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLogBytes = std::uint64_t{256}
                                    << 20;  // the limit of the log while it is filled
constexpr std::size_t kBodies =
    2000;  // different request bodies; every request has its own event id

class Folder {
 public:
  explicit Folder(const std::string& output) : path_(fs::path(output) / "serve-data") {
    fs::remove_all(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string features_text(Rng& rng, std::uint64_t count) {
  std::string text = "[";
  for (std::uint64_t i = 0; i < count; ++i) {
    text += fmt::format("{}{:.4f}", i == 0 ? "" : ",", rng.normal());
  }
  return text + "]";
}

std::string actions_text(const ServeBenchOptions& options, std::uint64_t number,
                         std::uint64_t actions) {
  Rng rng(1, Stream::kBenchmark, number);
  std::string text;
  for (std::uint64_t i = 0; i < actions; ++i) {
    text += fmt::format("{}{{\"id\":\"item-{}\",\"features\":{}}}", i == 0 ? "" : ",", i,
                        features_text(rng, options.features));
  }
  return text;
}

std::string post(const std::string& path, const std::string& body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", path,
                     body.size(), body);
}

// Makes the requests of one model: decisions, or decisions and rewards in turn.
class Client {
 public:
  Client(const ServeBenchOptions& options, std::uint64_t users, std::uint64_t actions)
      : users_(users) {
    for (std::uint64_t i = 0; i < kBodies; ++i) {
      bodies_.push_back(actions_text(options, i, actions));
    }
  }

  Exchange rank() {
    const std::uint64_t number = next_++;
    return {post("/v1/models/bench/rank", fmt::format(R"({{"userId":"user-{}","actions":[{}]}})",
                                                      number % users_, bodies_[number % kBodies]))};
  }

  static Exchange reward(const std::string& last) {
    const std::size_t begin = last.find("\"eventId\":\"") + 11;
    const std::string event = last.substr(begin, last.find('"', begin) - begin);
    return {post("/v1/models/bench/events/" + event + "/reward",
                 fmt::format(R"({{"value":{}}})", event.back() % 2)),
            false};
  }

  Exchange in_turn(const std::string& last) {
    return last.find("eventId") == std::string::npos ? rank() : reward(last);
  }

 private:
  std::uint64_t users_;
  std::uint64_t next_ = 0;
  std::vector<std::string> bodies_;
};

ModelOptions model_options(const ServeBenchOptions& options, std::uint64_t groups) {
  ModelOptions model;
  model.dimension = options.features;
  model.groups = groups;
  const std::string more = options.policy.empty() ? "" : ":" + options.policy;
  model.policy = parse_policy(fmt::format("mcnb:width={}:feedback=served{}", options.width, more));
  return model;
}

ServerOptions server_options(const ServeBenchOptions& options, const fs::path& folder,
                             std::uint64_t groups) {
  ServerOptions server;
  server.data = folder.string();
  server.port = 0;
  server.threads = options.threads;
  server.models["bench"] = model_options(options, groups);
  return server;
}

// Collects the rows of the table and prints each one as soon as it is known.
class Report {
 public:
  void add(const std::string& what, double per_second, const LoadResult& load,
           const std::string& note) {
    const bool timed = load.answers > 0;
    const auto answers = static_cast<double>(load.answers);
    table_.add_row({what, per_second > 0 ? fmt::format("{:.0f}", per_second) : "",
                    timed ? milliseconds(load.p50) : "", timed ? milliseconds(load.p99) : "",
                    timed ? milliseconds(load.processor_seconds / answers) : "", note});
    fmt::print("{}: {:.0f}/s, p50 {:.3f} ms, p99 {:.3f} ms {}\n", what, per_second, load.p50 * 1e3,
               load.p99 * 1e3, note);
    std::fflush(stdout);
  }
  const TextTable& table() const { return table_; }

 private:
  // "processor" is the CPU time of all threads, including the client's, per decision.
  TextTable table_{{"what", "per second", "p50", "p99", "processor", "note"}};
};

double rate(const LoadResult& load) { return static_cast<double>(load.answers) / load.seconds; }

// Rows per second that SQLite commits, for rows of a decision's size, `together` per transaction.
double sqlite_alone(const ServeBenchOptions& options, const fs::path& folder,
                    std::size_t together) {
  fs::create_directories(folder);
  ThreadPool threads(1);
  Model model(model_options(options, 1), threads);
  RankRequest request = read_rank(
      fmt::format(R"({{"userId":"u","actions":[{}]}})", actions_text(options, 0, options.actions)),
      model.options(), Dialect::kOwn);
  const RankRequest* one = &request;
  const std::string body = encode_event(model.decide({&one, 1}, 0).front());
  SqliteLogStore store(folder, SqliteLogStore::Access::kReadWrite);
  std::uint64_t position = 0;
  const double begin = now_seconds();
  while (now_seconds() - begin < options.seconds / 2) {
    Batch batch;
    for (std::size_t i = 0; i < together; ++i) {
      batch.rows.push_back({1, ++position, EventKind::kDecision, 0, 1, body});
    }
    store.commit(batch);
    store.maintain();
  }
  return static_cast<double>(position) / (now_seconds() - begin);
}

LoadResult livez(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections) {
  return put_load(port, {.connections = connections,
                         .seconds = options.seconds / 2,
                         .next = [](std::size_t, const std::string&) {
                           return Exchange{"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"};
                         }});
}

LoadResult ranks(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections,
                 Client& client) {
  return put_load(port, {.connections = connections,
                         .seconds = options.seconds,
                         .next = [&](std::size_t, const std::string&) { return client.rank(); }});
}

LoadResult both(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections,
                Client& client, std::uint64_t requests = 0) {
  return put_load(
      port, {.connections = connections,
             .seconds = options.seconds,
             .requests = requests,
             .next = [&](std::size_t, const std::string& last) { return client.in_turn(last); }});
}

// Measures the HTTP library and SQLite without our code.
void baselines(const ServeBenchOptions& options, Report& report) {
  const Folder folder(options.output);
  Server server(server_options(options, folder.path() / "empty", options.groups));
  const LoadResult empty_one = livez(server.port(), options, 1);
  report.add("empty request, 1 connection", rate(empty_one), empty_one, "the HTTP library");
  const LoadResult empty = livez(server.port(), options, options.connections);
  report.add(fmt::format("empty request, {} connections", options.connections), rate(empty), empty,
             "the HTTP library");
  report.add("SQLite alone, 1 in a transaction", sqlite_alone(options, folder.path() / "alone", 1),
             {}, "rows");
}

// Rows written so far, and the transactions that wrote them.
struct Commits {
  double rows = 0.0;
  double transactions = 0.0;
};

Commits commits_of(std::uint16_t port) {
  std::string text;
  put_load(port, {.requests = 2, .next = [&](std::size_t, const std::string& last) {
                    text = last.empty() ? text : last;
                    return Exchange{"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"};
                  }});
  const auto number = [&](const std::string& name) {
    const std::size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) {
      throw Error(ErrorKind::kSystem, "/metrics: expected " + name);
    }
    return std::stod(text.substr(at + name.size() + 2));
  };
  return {number("mcnb_commit_rows_sum"), number("mcnb_commit_rows_count")};
}

void few_learners(const ServeBenchOptions& options, const std::string& label, Report& report) {
  const Folder folder(options.output);
  Server server(server_options(options, folder.path() / "few", options.groups));
  Client client(options, 100'000, options.actions);
  both(server.port(), options, options.connections, client,
       4000);  // so that the learners have learned something
  const std::string learners = fmt::format("{} learners, {}", options.groups, label);
  const LoadResult one = ranks(server.port(), options, 1, client);
  report.add(fmt::format("decisions, {}, 1 connection", learners), rate(one), one,
             "asked for: p50 < 3 ms");
  const Commits before = commits_of(server.port());
  const LoadResult many = ranks(server.port(), options, options.connections, client);
  const Commits after = commits_of(server.port());
  report.add(fmt::format("decisions, {}, {} connections", learners, options.connections),
             rate(many), many, "asked for: 3000/s, p99 < 50 ms");
  const double together = (after.rows - before.rows) / (after.transactions - before.transactions);
  const auto batch = static_cast<std::size_t>(std::llround(std::max(together, 1.0)));
  report.add(fmt::format("SQLite alone, {} in a transaction as just now", batch),
             sqlite_alone(options, folder.path() / "alone", batch), {}, "rows");
  const LoadResult with_rewards = both(server.port(), options, options.connections, client);
  report.add(fmt::format("decisions while as many rewards come, {}", learners), rate(with_rewards),
             with_rewards,
             fmt::format("{} of those without", percent(rate(with_rewards) / rate(many))));
}

void many_learners(const ServeBenchOptions& options, Report& report) {
  const Folder folder(options.output);
  Server server(server_options(options, folder.path() / "many", 0));
  {
    // Every user learns once, from a round with one action, and so gets its own learner.
    Client warm_up(options, options.users, 1);
    both(server.port(), options, options.connections, warm_up, 2 * options.users);
  }
  double peak = 0.0;
  {
    ThreadPool threads(options.threads);
    peak = measure_fma_peak(threads, 1.0);
  }
  const double parameters = static_cast<double>(options.width * (options.features + 1));
  const double operations = 2.0 * parameters * static_cast<double>(options.users * options.actions);
  Client client(options, options.users, options.actions);
  const std::string learners = fmt::format("{} learners", options.users);
  const LoadResult many = ranks(server.port(), options, options.connections, client);
  report.add(fmt::format("decisions, {}, {} connections", learners, options.connections),
             rate(many), many,
             fmt::format("asked for: 150/s; {} of the {:.0f}/s at the processor's peak",
                         percent(rate(many) * operations / peak), peak / operations));
  const LoadResult with_rewards = both(server.port(), options, options.connections, client);
  report.add(fmt::format("decisions while as many rewards come, {}", learners), rate(with_rewards),
             with_rewards,
             fmt::format("{} of those without", percent(rate(with_rewards) / rate(many))));
}

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

// One decision and its reward for each request; `first` numbers the first event and user.
void decide_and_reward(Engine& engine, const std::vector<RankRequest>& requests,
                       std::uint64_t first) {
  std::vector<Task> ranks;
  std::vector<Task> rewards;
  for (std::uint64_t i = 0; i < requests.size(); ++i) {
    auto rank = std::make_shared<RankTask>();
    rank->model = "bench";
    rank->request = requests[i];
    rank->request.event_id = fmt::format("event-{}", first + i);
    rank->request.user_id = fmt::format("user-{}", first + i);
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
  const ModelOptions model = model_options(options, options.groups);
  auto create = std::make_shared<ControlTask>();
  create->work = [&](ModelHost& host, Storage&, std::int64_t) { host.create("bench", model); };
  run_tasks(engine, {create});
  std::vector<RankRequest> requests;
  for (std::uint64_t i = 0; i < 256; ++i) {
    requests.push_back(read_rank(fmt::format(R"({{"userId":"u","actions":[{}]}})",
                                             actions_text(options, i, options.actions)),
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

void restart(const ServeBenchOptions& options, Report& report) {
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
  load.p50 = load.p99 = seconds;
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

}  // namespace

void bench_serve(const ServeBenchOptions& options) {
  require_within("features", options.features, 1, kMostDimension);
  require_within("actions", options.actions, 1, kMostActions);
  require_within("connections", options.connections, 1, 1000);
  require_within("groups", options.groups, 1, 1'000'000);
  make_output_folder(options.output);
  Report report;
  if (options.restart_events > 0) {
    restart(options, report);  // first, because it forks, which is safe only without threads
  }
  baselines(options, report);
  ServeBenchOptions one_step = options;
  one_step.policy += (options.policy.empty() ? "" : ":") + std::string("meta_steps=1");
  few_learners(options, options.policy.empty() ? "preset default" : options.policy, report);
  few_learners(one_step, one_step.policy, report);
  if (options.users > 0) {
    many_learners(options, report);
  }
  fmt::print("\n{}", report.table().aligned());
  write_file(fs::path(options.output) / "bench-serve.csv", report.table().csv());
}

}  // namespace mcnb::bench
