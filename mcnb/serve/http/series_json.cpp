#include "mcnb/serve/http/series_json.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "mcnb/base/json_writer.h"
#include "mcnb/serve/http/request_metrics.h"

namespace mcnb {
namespace {

void write_mean(JsonWriter& out, const char* name, const WeightedRewards& rewards) {
  out.key(name).begin_object();
  if (const std::optional<SeriesMean> mean = rewards.mean()) {
    out.field("value", static_cast<float>(mean->value))
        .field("low", static_cast<float>(mean->low))
        .field("high", static_cast<float>(mean->high));
  }
  out.key("sums").begin_array();
  for (const double sum : {rewards.weights, rewards.squares, rewards.rewards,
                           rewards.square_rewards, rewards.square_reward_squares}) {
    out.value(static_cast<float>(sum));
  }
  out.end_array().end_object();
}

void write_counts(JsonWriter& out, const Bucket& bucket) {
  out.field("time", bucket.begin)
      .field("decisions", bucket.decisions)
      .field("explored", bucket.explored)
      .field("rewards", bucket.rewards)
      .field("late", bucket.late)
      .field("learned", bucket.learned)
      .field("refused", bucket.refused)
      .field("steps", bucket.steps)
      .field("movement", static_cast<float>(bucket.movement))
      .field("settled", bucket.settled)
      .field("rewarded", bucket.rewarded);
  write_mean(out, "reward", bucket.policy);
  write_mean(out, "random", bucket.random);
  write_mean(out, "first", bucket.first);
  out.field("effectiveSize", static_cast<float>(bucket.random.effective_size()));
}

void write_actions(JsonWriter& out, const Bucket& bucket, const std::vector<std::string>& names) {
  out.key("probabilities").begin_array();
  for (const std::uint32_t count : bucket.probabilities) {
    out.value(count);
  }
  out.end_array().key("actions").begin_array();
  for (const ActionShare& share : bucket.actions) {
    out.begin_object();
    if (share.name != 0) {
      out.field("id", names[share.name]);
    }
    out.field("decisions", share.decisions)
        .field("settled", share.settled)
        .field("rewards", share.rewards)
        .end_object();
  }
  out.end_array();
}

// Where a share of the times lies, by straight lines between the bounds of the histogram; 0 without
// any.
double quantile(const ServiceBucket& bucket, double share) {
  const std::vector<double>& bounds = rank_latency_bounds();
  const double total = std::accumulate(bucket.latency.begin(), bucket.latency.end(), 0.0);
  double below = 0.0;
  double from = 0.0;
  for (std::size_t i = 0; total > 0.0 && i < bounds.size(); ++i) {
    const double here = bucket.latency[i];
    if (here > 0.0 && below + here >= share * total) {
      return from + (bounds[i] - from) * (share * total - below) / here;
    }
    below += here;
    from = bounds[i];
  }
  return total > 0.0 ? bounds.back() : 0.0;
}

void write_service(JsonWriter& out, std::span<const ServiceBucket> buckets) {
  out.key("service").begin_array();
  for (const ServiceBucket& bucket : buckets) {
    out.begin_object()
        .field("time", bucket.begin)
        .field("requests", bucket.requests)
        .field("errors", bucket.errors)
        .field("p50", static_cast<float>(quantile(bucket, 0.5)))
        .field("p99", static_cast<float>(quantile(bucket, 0.99)))
        .field("logBytes", bucket.log_bytes)
        .field("memoryBytes", bucket.memory_bytes)
        .end_object();
  }
  out.end_array();
}

void write_model(JsonWriter& out, const ModelReport& model, const SeriesBook& series,
                 const Resolution& resolution, std::int64_t since, std::int64_t now,
                 bool with_actions) {
  const SeriesBook::ModelView view = series.model(model.id, resolution, since);
  const auto waiting = static_cast<std::int64_t>(model.options.waiting_seconds * 1000.0);
  out.field("name", model.name).field("settledUntil", now - waiting);
  out.key("totals")
      .begin_object()
      .field("decisions", model.counts.decisions)
      .field("learned", model.counts.learned)
      .field("pending", model.waiting)
      .field("users", model.users)
      .end_object();
  out.key("buckets").begin_array();
  for (const Bucket& bucket : view.buckets) {
    out.begin_object();
    write_counts(out, bucket);
    if (with_actions) {
      write_actions(out, bucket, view.names);
    }
    out.end_object();
  }
  out.end_array();
}

void write_head(JsonWriter& out, const Resolution& resolution, std::int64_t now) {
  out.field("resolution", resolution.name)
      .field("seconds", resolution.milliseconds / 1000)
      .field("now", now);
}

}  // namespace

std::string write_all_series(const std::vector<ModelReport>& models, const SeriesBook& series,
                             const Resolution& resolution, std::int64_t since, std::int64_t now,
                             double memory_limit) {
  JsonWriter out;
  out.begin_object();
  write_head(out, resolution, now);
  out.field("memoryLimitBytes", static_cast<std::uint64_t>(memory_limit));
  write_service(out, series.service(resolution, since));
  out.key("models").begin_array();
  for (const ModelReport& model : models) {
    out.begin_object();
    write_model(out, model, series, resolution, since, now, false);
    out.end_object();
  }
  out.end_array().end_object();
  return out.take();
}

std::string write_model_series(const ModelReport& model, const SeriesBook& series,
                               const Resolution& resolution, std::int64_t since, std::int64_t now) {
  JsonWriter out;
  out.begin_object();
  write_head(out, resolution, now);
  write_model(out, model, series, resolution, since, now, true);
  out.end_object();
  return out.take();
}

std::string write_settings_history(const ModelReport& model,
                                   const std::vector<SettingsSeen>& changes) {
  const ModelOptions& options = model.options;
  JsonWriter out;
  out.begin_object().key("settings").begin_object();
  out.field("mode", name_of(options.mode))
      .field("epsilon", options.epsilon)
      .field("waitingSeconds", options.waiting_seconds)
      .field("defaultReward", options.default_reward)
      .field("aggregation", name_of(options.aggregation))
      .end_object();
  out.key("changes").begin_array();
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    out.begin_object().field("time", change->time).field("settings", change->settings).end_object();
  }
  out.end_array().end_object();
  return out.take();
}

}  // namespace mcnb
