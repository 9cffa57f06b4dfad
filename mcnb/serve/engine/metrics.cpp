#include "mcnb/serve/engine/metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace mcnb {
namespace {

void write_head(std::string& out, const char* name, const char* kind, const char* help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
}

template <class Value>
void write_one(std::string& out, const char* name, const char* kind, const char* help,
               Value value) {
  write_head(out, name, kind, help);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

// One figure of every model.
template <class Get>
void write_each(std::string& out, const std::vector<ModelReport>& models, const char* name,
                const char* kind, const char* help, Get get) {
  write_head(out, name, kind, help);
  for (const ModelReport& model : models) {
    fmt::format_to(std::back_inserter(out), "{}{{model=\"{}\"}} {}\n", name, model.name,
                   get(model));
  }
}

}  // namespace

void Histogram::observe(double value) {
  const auto place = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  const std::string comma = labels.empty() ? "" : ",";
  const std::string braced = labels.empty() ? "" : "{" + labels + "}";
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma,
                   bound, count);
  }
  fmt::format_to(std::back_inserter(out), "{}_sum{} {}\n{}_count{} {}\n", name, braced,
                 sum_.load(std::memory_order_relaxed), name, braced, count);
}

const char* name_of(Route route) {
  switch (route) {
    case Route::kRank:
      return "rank";
    case Route::kReward:
      return "reward";
    case Route::kActivate:
      return "activate";
    case Route::kAdmin:
      return "admin";
    case Route::kOther:
      return "other";
  }
  return "?";
}

void Metrics::observe_request(Route route, int status, double seconds) {
  PerRoute& one = routes[static_cast<std::size_t>(route)];
  const auto status_class = static_cast<std::size_t>(std::clamp(status / 100, 0, 5));
  one.by_class[status_class].fetch_add(1, std::memory_order_relaxed);
  one.seconds.observe(seconds);
}

std::string Metrics::text(const std::vector<ModelReport>& models, std::uint64_t log_bytes,
                          bool ready) const {
  std::string out;
  write_head(out, "mcnb_requests_total", "counter", "Answered requests by route and status class.");
  for (const Route route : kRoutes) {
    const PerRoute& one = routes[static_cast<std::size_t>(route)];
    for (std::size_t c = 2; c < one.by_class.size(); ++c) {
      fmt::format_to(std::back_inserter(out),
                     "mcnb_requests_total{{route=\"{}\",status=\"{}xx\"}} {}\n", name_of(route), c,
                     one.by_class[c].load());
    }
  }
  write_head(out, "mcnb_request_seconds", "histogram", "Time from a request to its answer.");
  for (const Route route : kRoutes) {
    routes[static_cast<std::size_t>(route)].seconds.write(
        out, "mcnb_request_seconds", fmt::format("route=\"{}\"", name_of(route)));
  }
  write_head(out, "mcnb_rewards_total", "counter", "Rewards by outcome, since the start.");
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "mcnb_rewards_total{{outcome=\"{}\"}} {}\n",
                   name_of(static_cast<RewardOutcome>(i)), rewards[i].load());
  }
  write_one(out, "mcnb_ready", "gauge", "1 while requests are served.", ready ? 1 : 0);
  write_one(out, "mcnb_queue_length", "gauge", "Requests that wait for the engine.", queued.load());
  write_one(out, "mcnb_queue_full_total", "counter", "Requests refused because the queue was full.",
            queue_full.load());
  write_one(out, "mcnb_connections", "gauge", "Open connections.", connections.load());
  write_one(out, "mcnb_commits_total", "counter", "Transactions on disk.", commits.load());
  write_one(out, "mcnb_commit_failures_total", "counter", "Transactions that failed.",
            commit_failures.load());
  write_head(out, "mcnb_commit_rows", "histogram", "Events in one transaction.");
  commit_rows.write(out, "mcnb_commit_rows", "");
  write_head(out, "mcnb_commit_seconds", "histogram", "Time of one transaction.");
  commit_seconds.write(out, "mcnb_commit_seconds", "");
  write_head(out, "mcnb_decisions_together", "histogram",
             "Decisions that shared one pass over the learners.");
  decisions_together.write(out, "mcnb_decisions_together", "");
  write_one(out, "mcnb_snapshots_total", "counter", "Snapshots written.", snapshots.load());
  write_one(out, "mcnb_snapshot_failures_total", "counter", "Snapshots that failed.",
            snapshot_failures.load());
  write_one(out, "mcnb_log_bytes", "gauge", "Bytes of the database in use.", log_bytes);

  using R = ModelReport;
  const auto each = [&](const char* name, const char* kind, const char* help, auto get) {
    write_each(out, models, name, kind, help, get);
  };
  each("mcnb_decisions_total", "counter", "Decisions.",
       [](const R& r) { return r.counts.decisions; });
  each("mcnb_explored_total", "counter", "Answers other than the policy's own choice.",
       [](const R& r) { return r.counts.explored; });
  each("mcnb_apprentice_agreed_total", "counter", "Apprentice: the policy would have agreed.",
       [](const R& r) { return r.counts.agreed; });
  each("mcnb_learned_total", "counter", "Rewards learned, default ones too.",
       [](const R& r) { return r.counts.learned; });
  each("mcnb_default_rewards_total", "counter", "Default rewards learned.",
       [](const R& r) { return r.counts.defaults; });
  each("mcnb_learning_refused_total", "counter", "Rewards that the policy would not take.",
       [](const R& r) { return r.counts.refused; });
  each("mcnb_late_rewards_total", "counter", "Rewards after the waiting time.",
       [](const R& r) { return r.counts.late; });
  each("mcnb_clipped_rewards_total", "counter", "Sums of rewards that were cut to 1.",
       [](const R& r) { return r.counts.clipped; });
  each("mcnb_expired_total", "counter", "Waiting times that ended.",
       [](const R& r) { return r.counts.expired; });
  each("mcnb_unactivated_total", "counter", "Events that were never activated.",
       [](const R& r) { return r.counts.unactivated; });
  each("mcnb_pending_events", "gauge", "Events that wait for rewards.",
       [](const R& r) { return r.waiting; });
  each("mcnb_users", "gauge", "Users with a learner of their own.",
       [](const R& r) { return r.users; });
  each("mcnb_learners", "gauge", "Learners.", [](const R& r) { return r.learners; });
  each("mcnb_model_bytes", "gauge", "Memory of the model.",
       [](const R& r) { return r.memory_bytes; });
  return out;
}

}  // namespace mcnb
