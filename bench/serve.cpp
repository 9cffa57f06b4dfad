#include "bench/serve.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>

#include "bench/limits.h"
#include "bench/load_client.h"
#include "bench/report.h"
#include "bench/serve_engine.h"
#include "bench/serve_fairness.h"
#include "bench/serve_learners.h"
#include "bench/serve_parts.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/server.h"
#include "mcnb/serve/store/sqlite_log_store.h"

namespace mcnb::bench {
namespace {

namespace fs = std::filesystem;

double processor_per_answer(const LoadResult& load) {
  return load.processor_seconds / static_cast<double>(load.answers);
}

// Rows per second that SQLite commits, for rows of a decision's size, `together` per transaction.
double sqlite_alone(const ServeBenchOptions& options, const fs::path& folder,
                    std::size_t together) {
  fs::create_directories(folder);
  ThreadPool threads(1);
  Model model(mcnb_options(options, 1), threads);
  RankRequest request = read_rank(fmt::format(R"({{"userId":"u","actions":[{}]}})",
                                              actions_text(options.features, 0, options.actions)),
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

// Measures the HTTP server and SQLite without our code.
void baselines(const ServeBenchOptions& options, Report& report) {
  const Folder folder(options.output);
  Server server(
      server_options(options, folder.path() / "empty", mcnb_options(options, options.groups)));
  const LoadResult empty_one = livez(server.port(), options, 1);
  report.add("empty request, 1 connection", rate(empty_one), empty_one, "the HTTP server");
  const LoadResult empty = livez(server.port(), options, options.connections);
  report.add(fmt::format("empty request, {} connections", options.connections), rate(empty), empty,
             "the HTTP server");
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

// Returns the load of decisions without rewards, on all connections.
LoadResult few_learners(const ServeBenchOptions& options, const std::string& policy,
                        const std::string& label, Report& report) {
  const Folder folder(options.output);
  Server server(server_options(options, folder.path() / "few",
                               model_options(options, options.groups, policy)));
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
  return many;
}

// Learners that users share: few of them, and much load.
void measure_service(const ServeBenchOptions& options, Report& report) {
  baselines(options, report);
  const std::string one_step =
      options.policy + (options.policy.empty() ? "" : ":") + std::string("meta_steps=1");
  const LoadResult mcnb =
      few_learners(options, mcnb_policy(options, options.policy),
                   options.policy.empty() ? "preset default" : options.policy, report);
  few_learners(options, mcnb_policy(options, one_step), one_step, report);
  const LoadResult hierarchical = few_learners(options, "hierarchical", "hierarchical", report);
  report.add(
      "decisions of hierarchical, of those of mcnb", 0.0, {},
      fmt::format("{:.1f} times; asked for: 3 times; for the processor's time of one decision "
                  "of mcnb, {:.1f}",
                  rate(hierarchical) / rate(mcnb),
                  processor_per_answer(mcnb) / processor_per_answer(hierarchical)));
  measure_fairness(options, report);
}

}  // namespace

void bench_serve(const ServeBenchOptions& options, Display& display) {
  require_within("features", options.features, 1, kMostDimension);
  require_within("actions", options.actions, 1, kMostActions);
  require_within("connections", options.connections, 1, 1000);
  require_within("groups", options.groups, 0, 1'000'000);
  for (const std::uint64_t users : options.users) {
    require_within("users", users, 0, 10'000'000);
  }
  make_output_folder(options.output);
  Report report(display);
  if (options.restart_events > 0) {
    time_restart(options, report);  // first, because it forks, which is safe only without threads
  }
  if (options.groups > 0) {
    measure_service(options, report);
  }
  if (options.pause_rewards > 0) {
    find_longest_pause(options, report);
  }
  for (const std::uint64_t users : options.users) {
    if (users > 0) {
      measure_learners(options, users, report);
    }
  }
  display.say("\n");
  display.show("serve", report.table(), report.table());
  write_file(fs::path(options.output) / "bench-serve.csv", report.table().csv());
}

}  // namespace mcnb::bench
