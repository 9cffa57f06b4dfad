#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mcnb/serve/series/bucket.h"
#include "mcnb/serve/series/observations.h"

namespace mcnb {

// How long the buckets of one resolution are, and how many of them are kept.
struct Resolution {
  const char* name;
  std::int64_t milliseconds;
  std::size_t kept;
};
inline constexpr std::array<Resolution, 4> kResolutions{
    {{"10s", 10'000, 180}, {"5m", 300'000, 288}, {"1h", 3'600'000, 336}, {"1d", 86'400'000, 730}}};

// Counts of a model that only go up. The series keep what they grow by.
struct ModelTotals {
  std::uint32_t model = 0;
  std::uint64_t rewards = 0;
  std::uint64_t late = 0;
  std::uint64_t learned = 0;
  std::uint64_t refused = 0;
  std::uint64_t steps = 0;         // backward passes
  std::optional<double> movement;  // of the shared learner, if it was measured
};

struct ServiceTotals {
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
  std::uint64_t log_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::array<std::uint64_t, ServiceBucket::kLatencyBins> latency{};
};

// Time series of all models, for people: how many decisions, which rewards, which actions. They are
// no part of the models' states. Everything that happens is added to one bucket of each resolution,
// so old buckets need no work; each resolution keeps a fixed number of them. The series of a model
// take less than 2 MB. They hold no names of users, and hashes of users only for events that wait.
//
// Safe from many threads.
class SeriesBook {
 public:
  // Kept in the file; in memory only if the path is empty. A file that cannot be read is left out,
  // and `warning` says why.
  explicit SeriesBook(std::filesystem::path file = {});
  const std::string& warning() const { return warning_; }

  void record(std::span<const Observation> observations);
  void sample(std::span<const ModelTotals> models, std::int64_t time);
  void sample(const ServiceTotals& service, std::int64_t time);

  struct ModelView {
    std::vector<Bucket> buckets;     // by ascending time
    std::vector<std::string> names;  // of the actions; the first stands for all others
  };
  // The buckets that begin at `since` or later. A model without any has an empty view.
  ModelView model(std::uint32_t id, const Resolution& resolution, std::int64_t since = 0) const;
  std::vector<ServiceBucket> service(const Resolution& resolution, std::int64_t since = 0) const;

  // Drops the events that wait for rewards except those for which `waits` returns true: after a
  // start, since they may have ended after the last `save`.
  void keep_waiting(const std::function<bool(std::uint32_t model, std::uint64_t event)>& waits);

  // Changes of the model's settings, the latest last. The latest hundred are kept.
  std::vector<SettingsSeen> settings(std::uint32_t model) const;

  // True if a user or a model was forgotten since the last `save`: the file still has traces.
  bool must_save() const;
  // Writes the file. Throws Error (kSystem).
  void save();

 private:
  // An event whose reward is not known yet.
  struct OpenEvent {
    std::uint64_t event = 0;
    std::uint64_t user = 0;
    std::int64_t time = 0;
    float propensity = 1.0F;
    std::uint32_t actions = 1;
    std::uint32_t name = 0;
    std::uint32_t first = 0;

    using Stored =
        StoredInOrder<&OpenEvent::event, &OpenEvent::user, &OpenEvent::time, &OpenEvent::propensity,
                      &OpenEvent::actions, &OpenEvent::name, &OpenEvent::first>;
  };
  struct Series {
    std::array<std::deque<Bucket>, kResolutions.size()> buckets;
    std::vector<std::string> names{""};
    std::map<std::string, std::uint32_t, std::less<>> name_indices;
    std::unordered_map<std::uint64_t, OpenEvent> open;
    std::deque<SettingsSeen> settings;
    // Only events whose hash has none of these bits are followed to their rewards, so that `open`
    // stays small: a sample of them says enough.
    std::uint64_t skipped = 0;
  };

  void see(const DecisionSeen& seen);
  void see(const EventEnded& seen);
  void see(const UserForgotten& seen);
  void see(const SettingsSeen& seen);
  void see(const ModelRemoved& seen);
  static std::uint32_t name_index(Series& series, const std::string& action);
  static void follow(Series& series, const OpenEvent& event);
  void load();
  void write(StateWriter& writer) const;
  void read(StateReader& reader);

  std::filesystem::path file_;
  std::pair<std::uint64_t, std::uint64_t> folder_;  // device and number of the file's folder
  std::string warning_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Series> models_;
  std::array<std::deque<ServiceBucket>, kResolutions.size()> service_;
  std::map<std::uint32_t, ModelTotals> last_;
  ServiceTotals last_service_;
  bool has_service_ = false;
  bool must_save_ = false;
  std::mutex file_mutex_;
};

}  // namespace mcnb
