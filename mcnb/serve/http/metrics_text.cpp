#include "mcnb/serve/http/metrics_text.h"

#include <fmt/core.h>

#include <cmath>
#include <iterator>
#include <limits>

namespace mcnb {
namespace {

struct Head {
  const char* name;
  const char* kind;
  const char* help;
};

// A metric with one value for the whole service.
struct ServiceMetric {
  Head head;
  std::int64_t (*value)(const RequestMetrics& requests, const Metrics& metrics,
                        const Engine& engine);
};

std::int64_t number(const std::atomic<std::uint64_t>& count) {
  return static_cast<std::int64_t>(count.load(std::memory_order_relaxed));
}

using Requests = RequestMetrics;
constexpr ServiceMetric kServiceMetrics[] = {
    {{"mcnb_ready", "gauge", "1 while requests are served."},
     [](const Requests&, const Metrics&, const Engine& e) { return std::int64_t{e.ready()}; }},
    {{"mcnb_queue_length", "gauge", "Requests that wait for the engine."},
     [](const Requests&, const Metrics& m, const Engine&) { return m.queued.load(); }},
    {{"mcnb_queue_full_total", "counter", "Requests refused because the queue was full."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.queue_full); }},
    {{"mcnb_waited_too_long_total", "counter",
      "Requests refused because they had waited too long."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.waited_too_long); }},
    {{"mcnb_large_decisions_total", "counter", "Decisions computed in parts."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.large_decisions); }},
    {{"mcnb_memory_bytes", "gauge", "Memory of all models, their snapshots and waiting requests."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.memory_bytes); }},
    {{"mcnb_memory_limit_bytes", "gauge", "The most that this memory may be."},
     [](const Requests&, const Metrics&, const Engine& e) {
       return static_cast<std::int64_t>(e.memory_limit());
     }},
    {{"mcnb_connections", "gauge", "Open connections."},
     [](const Requests& r, const Metrics&, const Engine&) { return r.connections.load(); }},
    {{"mcnb_refused_connections_total", "counter", "Connections refused because of the limits."},
     [](const Requests& r, const Metrics&, const Engine&) {
       return number(r.refused_connections);
     }},
    {{"mcnb_replaced_connections_total", "counter",
      "Connections that waited for their client and were ended to make room for others."},
     [](const Requests& r, const Metrics&, const Engine&) {
       return number(r.replaced_connections);
     }},
    {{"mcnb_failed_handshakes_total", "counter", "TLS handshakes that failed."},
     [](const Requests& r, const Metrics&, const Engine&) { return number(r.failed_handshakes); }},
    {{"mcnb_malformed_requests_total", "counter", "Requests that were no sound HTTP."},
     [](const Requests& r, const Metrics&, const Engine&) { return number(r.malformed_requests); }},
    {{"mcnb_refused_keys_total", "counter", "Requests with a wrong key, or one without the right."},
     [](const Requests& r, const Metrics&, const Engine&) { return number(r.refused_keys); }},
    {{"mcnb_commits_total", "counter", "Transactions written to disk."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.commits); }},
    {{"mcnb_commit_failures_total", "counter", "Transactions that failed."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.commit_failures); }},
    {{"mcnb_snapshots_total", "counter", "Snapshots written."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.snapshots); }},
    {{"mcnb_snapshot_failures_total", "counter", "Snapshots that failed."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.snapshot_failures); }},
    {{"mcnb_fits_total", "counter", "Fits of all rewards that ran beside the requests."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.fits); }},
    {{"mcnb_log_verified_bytes_total", "counter", "Bytes of the log verified in the background."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.verified_bytes); }},
    {{"mcnb_log_passes_total", "counter", "Verifications of the whole log in the background."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.verified_passes); }},
    {{"mcnb_log_damaged", "gauge", "Damaged places of the log that are known."},
     [](const Requests&, const Metrics& m, const Engine&) { return number(m.damaged); }},
    {{"mcnb_log_bytes", "gauge", "Bytes of the database in use."},
     [](const Requests&, const Metrics&, const Engine& e) {
       return static_cast<std::int64_t>(e.log_bytes());
     }},
};

// A metric with one value per model.
struct ModelMetric {
  Head head;
  std::uint64_t (*value)(const ModelReport& model);
};
// The same, for values that are no counts.
struct ModelGauge {
  Head head;
  double (*value)(const ModelReport& model);
};
constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

double share(double part, std::uint64_t of) {
  return of == 0 ? kNotKnown : part / static_cast<double>(of);
}

using Report = ModelReport;
constexpr ModelMetric kModelMetrics[] = {
    {{"mcnb_decisions_total", "counter", "Decisions."},
     [](const Report& r) -> std::uint64_t { return r.counts.decisions; }},
    {{"mcnb_explored_total", "counter", "Decisions that differ from the policy's own choice."},
     [](const Report& r) -> std::uint64_t { return r.counts.explored; }},
    {{"mcnb_apprentice_agreed_total", "counter",
      "Decisions in apprentice mode with which the policy agreed."},
     [](const Report& r) -> std::uint64_t { return r.counts.agreed; }},
    {{"mcnb_learned_total", "counter", "Rewards learned, including default rewards."},
     [](const Report& r) -> std::uint64_t { return r.counts.learned; }},
    {{"mcnb_default_rewards_total", "counter", "Default rewards learned."},
     [](const Report& r) -> std::uint64_t { return r.counts.defaults; }},
    {{"mcnb_learning_refused_total", "counter", "Rewards that the policy refused to learn."},
     [](const Report& r) -> std::uint64_t { return r.counts.refused; }},
    {{"mcnb_late_rewards_total", "counter", "Rewards that came after the waiting time."},
     [](const Report& r) -> std::uint64_t { return r.counts.late; }},
    {{"mcnb_clipped_rewards_total", "counter", "Sums of rewards that were cut to 1."},
     [](const Report& r) -> std::uint64_t { return r.counts.clipped; }},
    {{"mcnb_expired_total", "counter", "Events whose waiting time ended."},
     [](const Report& r) -> std::uint64_t { return r.counts.expired; }},
    {{"mcnb_unactivated_total", "counter", "Events that were never activated."},
     [](const Report& r) -> std::uint64_t { return r.counts.unactivated; }},
    {{"mcnb_counted_decisions_total", "counter", "Decisions whose outcome counts."},
     [](const Report& r) -> std::uint64_t { return r.estimates.counts.counted; }},
    {{"mcnb_uncounted_decisions", "gauge", "Decisions whose waiting time is not over."},
     [](const Report& r) -> std::uint64_t { return r.estimates.uncounted; }},
    {{"mcnb_pending_events", "gauge", "Events that wait for rewards."},
     [](const Report& r) -> std::uint64_t { return r.waiting; }},
    {{"mcnb_users", "gauge", "Users with a learner of their own."},
     [](const Report& r) -> std::uint64_t { return r.users; }},
    {{"mcnb_learners", "gauge", "Learners."},
     [](const Report& r) -> std::uint64_t { return r.learners; }},
    {{"mcnb_model_bytes", "gauge", "Memory of the model."},
     [](const Report& r) -> std::uint64_t { return r.memory_bytes; }},
};

constexpr ModelGauge kModelGauges[] = {
    {{"mcnb_reward_sum_total", "counter", "Sum of the rewards of the decisions that count."},
     [](const Report& r) { return r.estimates.counts.reward_sum; }},
    {{"mcnb_mean_reward", "gauge", "Mean reward of the decisions that count."},
     [](const Report& r) {
       return share(r.estimates.counts.reward_sum, r.estimates.counts.counted);
     }},
    {{"mcnb_exploration_share", "gauge",
      "Share of decisions that differ from the policy's choice."},
     [](const Report& r) {
       return share(static_cast<double>(r.counts.explored), r.counts.decisions);
     }},
};

// What a policy would have earned.
struct PolicyValue {
  std::string labels;
  double value = 0.0;
  Interval interval;
  std::uint64_t decisions = 0;
};
struct ValueMetric {
  Head head;
  double (*value)(const PolicyValue& value);
};
constexpr ValueMetric kValueMetrics[] = {
    {{"mcnb_policy_value", "gauge", "Estimated mean reward of a policy of the model."},
     [](const PolicyValue& v) { return v.value; }},
    {{"mcnb_policy_value_low", "gauge", "Lower end of its 95 % confidence sequence."},
     [](const PolicyValue& v) { return v.interval.low; }},
    {{"mcnb_policy_value_high", "gauge", "Upper end of its 95 % confidence sequence."},
     [](const PolicyValue& v) { return v.interval.high; }},
    {{"mcnb_policy_value_decisions", "gauge", "Decisions that the estimate is of."},
     [](const PolicyValue& v) { return static_cast<double>(v.decisions); }},
};

void write_head(std::string& out, const Head& head) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", head.name, head.help,
                 head.kind);
}

// Prometheus writes numbers that are not known as NaN.
void write_sample(std::string& out, const char* name, const std::string& labels, double value) {
  const std::string text = std::isnan(value) ? "NaN" : fmt::format("{}", value);
  fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, labels, text);
}

void write_number(std::string& out, const Head& head, double value) {
  write_head(out, head);
  fmt::format_to(std::back_inserter(out), "{} {}\n", head.name, value);
}

// `labels` such as `route="rank"`, or none.
void write_histogram(std::string& out, const char* name, const std::string& labels,
                     const Histogram& histogram) {
  const std::string comma = labels.empty() ? "" : ",";
  const std::string braced = labels.empty() ? "" : "{" + labels + "}";
  const std::vector<double>& bounds = histogram.bounds();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    count += histogram.count(i);
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma,
                   bound, count);
  }
  fmt::format_to(std::back_inserter(out), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name, braced,
                 histogram.sum(), count);
}

std::vector<PolicyValue> values_of(const std::vector<ModelReport>& models) {
  std::vector<PolicyValue> values;
  for (const ModelReport& model : models) {
    const auto add = [&](const char* policy, const std::string& name,
                         const RunningValue& estimate) {
      values.push_back(
          {fmt::format("model=\"{}\",policy=\"{}\",challenger=\"{}\"", model.name, policy, name),
           estimate.value().value_or(kNotKnown), estimate.interval(), estimate.count()});
    };
    add("champion", "", model.estimates.champion);
    add("random", "", model.estimates.random);
    add("first", "", model.estimates.first);
    for (const ChallengerReport& challenger : model.estimates.challengers) {
      add("challenger", challenger.name, challenger.estimate);
    }
  }
  return values;
}

void write_values(std::string& out, const std::vector<ModelReport>& models) {
  const std::vector<PolicyValue> values = values_of(models);
  for (const ValueMetric& metric : kValueMetrics) {
    write_head(out, metric.head);
    for (const PolicyValue& value : values) {
      write_sample(out, metric.head.name, value.labels, metric.value(value));
    }
  }
}

void write_requests(std::string& out, const RequestMetrics& requests) {
  write_head(out,
             {"mcnb_requests_total", "counter", "Answered requests by route and status class."});
  for (const auto& [label, counts] : requests.by_label()) {
    for (std::size_t c = 2; c < counts.by_class.size(); ++c) {
      fmt::format_to(std::back_inserter(out),
                     "mcnb_requests_total{{route=\"{}\",status=\"{}xx\"}} {}\n", label, c,
                     counts.by_class[c].load());
    }
  }
  write_head(out, {"mcnb_request_seconds", "histogram", "Time from a request to its response."});
  for (const auto& [label, counts] : requests.by_label()) {
    write_histogram(out, "mcnb_request_seconds", fmt::format("route=\"{}\"", label),
                    counts.seconds);
  }
}

void write_engine(std::string& out, const Metrics& metrics) {
  write_head(out, {"mcnb_rewards_total", "counter", "Rewards by outcome, since the start."});
  for (std::size_t i = 0; i < metrics.rewards.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "mcnb_rewards_total{{outcome=\"{}\"}} {}\n",
                   name_of(static_cast<RewardOutcome>(i)), metrics.rewards[i].load());
  }
  write_number(out, {"mcnb_last_fit_seconds", "gauge", "Time of the fit that ended last."},
               metrics.last_fit_seconds);
  write_number(out,
               {"mcnb_longest_batch_seconds", "gauge",
                "Longest time that requests computed together took, without the disk."},
               metrics.longest_batch_seconds);
  write_head(out, {"mcnb_commit_rows", "histogram", "Events in one transaction."});
  write_histogram(out, "mcnb_commit_rows", "", metrics.commit_rows);
  write_head(out, {"mcnb_commit_seconds", "histogram", "Time of one transaction."});
  write_histogram(out, "mcnb_commit_seconds", "", metrics.commit_seconds);
  write_head(out, {"mcnb_acknowledge_seconds", "histogram",
                   "Time of noting outside the database what was acknowledged."});
  write_histogram(out, "mcnb_acknowledge_seconds", "", metrics.acknowledge_seconds);
  write_head(out, {"mcnb_decisions_together", "histogram",
                   "Decisions that shared one pass over the learners."});
  write_histogram(out, "mcnb_decisions_together", "", metrics.decisions_together);
}

}  // namespace

std::string metrics_text(const RequestMetrics& requests, const Metrics& metrics,
                         const Engine& engine) {
  std::string out;
  write_requests(out, requests);
  write_engine(out, metrics);
  for (const ServiceMetric& metric : kServiceMetrics) {
    write_head(out, metric.head);
    fmt::format_to(std::back_inserter(out), "{} {}\n", metric.head.name,
                   metric.value(requests, metrics, engine));
  }
  const std::vector<ModelReport> models = engine.reports();
  for (const ModelMetric& metric : kModelMetrics) {
    write_head(out, metric.head);
    for (const ModelReport& model : models) {
      fmt::format_to(std::back_inserter(out), "{}{{model=\"{}\"}} {}\n", metric.head.name,
                     model.name, metric.value(model));
    }
  }
  for (const ModelGauge& metric : kModelGauges) {
    write_head(out, metric.head);
    for (const ModelReport& model : models) {
      write_sample(out, metric.head.name, fmt::format("model=\"{}\"", model.name),
                   metric.value(model));
    }
  }
  write_values(out, models);
  return out;
}

}  // namespace mcnb
