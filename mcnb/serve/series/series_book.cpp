#include "mcnb/serve/series/series_book.h"

#include <algorithm>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostNames = 256;  // of actions; later ones count as others
constexpr std::size_t kMostSettings = 100;
constexpr std::size_t kMostOpen = 16'384;  // events that are followed to their rewards

std::int64_t begin_of(std::int64_t time, const Resolution& resolution) {
  return time - time % resolution.milliseconds;
}

// The bucket of a time; nullptr if it is older than what is kept. `may_add`: it is made if it is
// missing.
template <class OneBucket>
OneBucket* bucket_at(std::deque<OneBucket>& buckets, std::int64_t time,
                     const Resolution& resolution, bool may_add) {
  const std::int64_t begin = begin_of(time, resolution);
  const auto found = std::ranges::lower_bound(buckets, begin, {}, &OneBucket::begin);
  if (found != buckets.end() && found->begin == begin) {
    return &*found;
  }
  const auto span = static_cast<std::int64_t>(resolution.kept) * resolution.milliseconds;
  if (!may_add || (!buckets.empty() && begin <= buckets.back().begin - span)) {
    return nullptr;
  }
  OneBucket fresh;
  fresh.begin = begin;
  buckets.insert(found, std::move(fresh));
  while (buckets.front().begin <= buckets.back().begin - span) {
    buckets.pop_front();
  }
  const auto made = std::ranges::lower_bound(buckets, begin, {}, &OneBucket::begin);
  return &*made;
}

ActionShare& share_of(Bucket& bucket, std::uint32_t name) {
  const auto found = std::ranges::find(bucket.actions, name, &ActionShare::name);
  if (found != bucket.actions.end()) {
    return *found;
  }
  if (name != 0 && bucket.actions.size() >= Bucket::kMostActions) {
    return share_of(bucket, 0);
  }
  return bucket.actions.emplace_back(ActionShare{.name = name});
}

std::uint32_t growth(std::uint64_t now, std::uint64_t before) {
  return static_cast<std::uint32_t>(now > before ? now - before : 0);
}

template <class OneBucket>
std::vector<OneBucket> from(const std::deque<OneBucket>& buckets, std::int64_t since) {
  return {std::ranges::lower_bound(buckets, since, {}, &OneBucket::begin), buckets.end()};
}

std::size_t index_of(const Resolution& resolution) {
  return static_cast<std::size_t>(&resolution - kResolutions.data());
}

}  // namespace

SeriesBook::SeriesBook(std::filesystem::path file) : file_(std::move(file)) { load(); }

void SeriesBook::record(std::span<const Observation> observations) {
  if (observations.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const Observation& one : observations) {
    std::visit([this](const auto& seen) { see(seen); }, one);
  }
}

std::uint32_t SeriesBook::name_index(Series& series, const std::string& action) {
  const auto found = series.name_indices.find(action);
  if (found != series.name_indices.end()) {
    return found->second;
  }
  if (series.names.size() > kMostNames) {
    return 0;
  }
  const auto index = static_cast<std::uint32_t>(series.names.size());
  series.names.push_back(action);
  series.name_indices.emplace(action, index);
  return index;
}

void SeriesBook::see(const DecisionSeen& seen) {
  Series& series = models_[seen.model];
  const std::uint32_t name = name_index(series, seen.action);
  constexpr std::size_t kBins = Bucket::kProbabilityBins;
  const auto bin = std::min(static_cast<std::size_t>(seen.propensity * kBins), kBins - 1);
  for (const Resolution& resolution : kResolutions) {
    if (Bucket* bucket =
            bucket_at(series.buckets[index_of(resolution)], seen.time, resolution, true)) {
      ++bucket->decisions;
      bucket->explored += seen.explored ? 1 : 0;
      ++bucket->probabilities[bin];
      ++share_of(*bucket, name).decisions;
    }
  }
  follow(series, {seen.event, seen.user, seen.time, seen.propensity, seen.actions, name,
                  seen.first ? 1U : 0U});
}

void SeriesBook::follow(Series& series, const OpenEvent& event) {
  if ((event.event & series.skipped) != 0) {
    return;
  }
  series.open[event.event] = event;
  while (series.open.size() > kMostOpen) {
    series.skipped = series.skipped * 2 + 1;
    std::erase_if(series.open, [&](const auto& one) { return (one.first & series.skipped) != 0; });
  }
  if (series.skipped != 0 && series.open.size() < kMostOpen / 8) {
    series.skipped /= 2;
  }
}

void SeriesBook::see(const EventEnded& seen) {
  const auto series = models_.find(seen.model);
  if (series == models_.end()) {
    return;
  }
  const auto open = series->second.open.extract(seen.event);
  if (open.empty() || !seen.reward) {
    return;
  }
  const OpenEvent& event = open.mapped();
  const double reward = *seen.reward;
  const double inverse = 1.0 / std::max<double>(event.propensity, 1e-6);
  for (const Resolution& resolution : kResolutions) {
    Bucket* const bucket =
        bucket_at(series->second.buckets[index_of(resolution)], event.time, resolution, false);
    if (bucket != nullptr) {
      ++bucket->settled;
      bucket->rewarded += seen.rewarded ? 1 : 0;
      bucket->policy.add(1.0, reward);
      bucket->random.add(inverse / event.actions, reward);
      if (event.first != 0) {
        bucket->first.add(inverse, reward);
      }
      ActionShare& share = share_of(*bucket, event.name);
      ++share.settled;
      share.rewards += *seen.reward;
    }
  }
}

void SeriesBook::see(const UserForgotten& seen) {
  const auto series = models_.find(seen.model);
  if (series != models_.end()) {
    std::erase_if(series->second.open,
                  [&](const auto& one) { return one.second.user == seen.user; });
    must_save_ = true;
  }
}

void SeriesBook::see(const SettingsSeen& seen) {
  std::deque<SettingsSeen>& settings = models_[seen.model].settings;
  settings.push_back(seen);
  if (settings.size() > kMostSettings) {
    settings.pop_front();
  }
}

void SeriesBook::see(const ModelRemoved& seen) {
  must_save_ = models_.erase(seen.model) > 0 || must_save_;
  last_.erase(seen.model);
}

void SeriesBook::sample(std::span<const ModelTotals> models, std::int64_t time) {
  const std::lock_guard lock(mutex_);
  for (const ModelTotals& now : models) {
    const auto [place, fresh] = last_.try_emplace(now.model, now);
    const ModelTotals before = std::exchange(place->second, now);
    if (!now.movement) {
      place->second.movement = before.movement;
    }
    const bool moved = now.movement && now.movement != before.movement;
    if (fresh || (now.rewards == before.rewards && now.late == before.late &&
                  now.learned == before.learned && now.refused == before.refused &&
                  now.steps == before.steps && !moved)) {
      continue;
    }
    for (const Resolution& resolution : kResolutions) {
      auto& buckets = models_[now.model].buckets[index_of(resolution)];
      if (Bucket* bucket = bucket_at(buckets, time, resolution, true)) {
        bucket->rewards += growth(now.rewards, before.rewards);
        bucket->late += growth(now.late, before.late);
        bucket->learned += growth(now.learned, before.learned);
        bucket->refused += growth(now.refused, before.refused);
        bucket->steps += growth(now.steps, before.steps);
        bucket->movement = now.movement.value_or(bucket->movement);
      }
    }
  }
}

void SeriesBook::sample(const ServiceTotals& service, std::int64_t time) {
  const std::lock_guard lock(mutex_);
  const ServiceTotals before = has_service_ ? last_service_ : service;
  last_service_ = service;
  has_service_ = true;
  for (const Resolution& resolution : kResolutions) {
    auto& buckets = service_[index_of(resolution)];
    if (ServiceBucket* bucket = bucket_at(buckets, time, resolution, true)) {
      bucket->requests += growth(service.requests, before.requests);
      bucket->errors += growth(service.errors, before.errors);
      bucket->log_bytes = service.log_bytes;
      bucket->memory_bytes = service.memory_bytes;
      for (std::size_t i = 0; i < ServiceBucket::kLatencyBins; ++i) {
        bucket->latency[i] += growth(service.latency[i], before.latency[i]);
      }
    }
  }
}

SeriesBook::ModelView SeriesBook::model(std::uint32_t id, const Resolution& resolution,
                                        std::int64_t since) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(id);
  if (found == models_.end()) {
    return {{}, {""}};
  }
  return {from(found->second.buckets[index_of(resolution)], since), found->second.names};
}

std::vector<ServiceBucket> SeriesBook::service(const Resolution& resolution,
                                               std::int64_t since) const {
  const std::lock_guard lock(mutex_);
  return from(service_[index_of(resolution)], since);
}

std::vector<SettingsSeen> SeriesBook::settings(std::uint32_t model) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end()) {
    return {};
  }
  return {found->second.settings.begin(), found->second.settings.end()};
}

void SeriesBook::keep_waiting(
    const std::function<bool(std::uint32_t model, std::uint64_t event)>& waits) {
  const std::lock_guard lock(mutex_);
  for (auto& [model, series] : models_) {
    const std::size_t dropped = std::erase_if(
        series.open, [&, id = model](const auto& one) { return !waits(id, one.first); });
    must_save_ = must_save_ || dropped > 0;
  }
}

bool SeriesBook::must_save() const {
  const std::lock_guard lock(mutex_);
  return must_save_;
}

}  // namespace mcnb
