#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/log_store.h"
#include "mcnb/serve/model.h"
#include "mcnb/serve/service_error.h"
#include "mcnb/serve/snapshots.h"

namespace mcnb {

// What goes to disk in one transaction.
struct Batch {
  std::vector<LogRow> rows;
  std::vector<StoredModel> created;
  std::vector<std::uint32_t> deleted;
  std::vector<LogStore::Erasure> erasures;

  bool empty() const {
    return rows.empty() && created.empty() && deleted.empty() && erasures.empty();
  }
};
// On disk when it returns; nothing of it when it throws.
void write_batch(LogStore& store, const Batch& batch);

// What people and other threads may know about a model.
struct ModelReport {
  std::uint32_t id = 0;
  std::string name;
  ModelOptions options;
  ModelCounts counts;
  std::size_t waiting = 0;
  std::size_t users = 0;
  std::size_t learners = 0;
  std::size_t memory_bytes = 0;
  std::uint64_t version = 0;
  std::uint64_t last_place = 0;
  std::uint64_t snapshot_place = 0;
};

// A snapshot that waits to be written, after the batch it belongs to.
struct SnapshotJob {
  std::uint32_t model = 0;
  std::uint64_t place = 0;
  std::string bytes;
  bool alone = false;  // older ones have to go: they know a user who is to be forgotten
};

struct Recovery {
  std::uint64_t rows = 0;  // replayed
  double seconds = 0.0;    // that replaying took
  std::vector<std::string> warnings;
  std::vector<std::uint32_t> orphans;  // models that were deleted, but not all of their rows
};

// All models of one data folder: turns requests into events, applies them, and collects what has to
// be written before anybody is answered. For one thread.
class ModelHost {
 public:
  // Borrows the threads.
  ModelHost(const std::filesystem::path& folder, ThreadPool& threads);

  // Makes every model from its latest sound snapshot and the log after it. Throws Error (kCorrupt)
  // where neither snapshots nor the log give a model, and changes nothing on disk.
  // `from_base`: from the oldest snapshot instead, or from birth where the log begins there.
  Recovery recover(LogStore& store, bool from_base = false);
  // Hashes of the whole states, by name.
  std::map<std::string, std::uint64_t> digests();

  // Throw RequestRefused. What they change is in the batch.
  void create(const std::string& name, ModelOptions options);
  void remove(const std::string& name);
  void change(const std::string& name, const OptionValues& settings, std::int64_t time);
  ModelReport report(const std::string& name) const;
  std::vector<ModelReport> reports() const;
  UserReport user(const std::string& model, const std::string& user_id);
  // Returns the fresh snapshot that has to be written.
  SnapshotJob forget(const std::string& model, const std::string& user_id, std::int64_t time);
  // What `forget` has begun, and has to be erased after its snapshot was written.
  const LogStore::Erasure& last_erasure() const { return last_erasure_; }
  SnapshotJob snapshot(const std::string& model);

  // One decision for each request, or why there is none. Events that were decided before are looked
  // up: the same request gets the same answer.
  struct Decided {
    std::optional<Decision> decision;
    std::optional<ServiceError> error;
  };
  std::vector<Decided> decide(const std::string& model,
                              const std::vector<const RankRequest*>& requests, std::int64_t time,
                              LogStore& store);
  RewardOutcome reward(const std::string& model, const Reward& reward);
  // False where there was nothing to activate any more.
  bool activate(const std::string& model, const Activation& activation);
  Decision look_up(const std::string& model, const std::string& event_id, LogStore& store,
                   bool* waiting = nullptr);

  // Ends waiting times, of at most `limit` events of each model. True where more are due.
  bool expire(std::int64_t time, std::size_t limit);
  // Learns what was put off.
  void learn();

  // Snapshots that are due: a restart would replay for longer than `seconds`.
  std::vector<SnapshotJob> due_snapshots(double seconds);
  // Of every model that has not two at or after `place`.
  std::vector<SnapshotJob> snapshots_from(std::uint64_t place);
  void snapshot_written(std::uint32_t model, std::uint64_t place, bool alone);
  void snapshot_failed(std::uint32_t model);
  // Every model can be made from snapshots at or after this place, even if its latest is damaged.
  std::uint64_t erasable_until() const;

  Batch take_batch() { return std::exchange(batch_, {}); }
  std::int64_t last_time() const;
  std::uint64_t last_place() const { return last_place_; }

 private:
  struct Hosted {
    std::uint32_t id = 0;
    std::string name;
    std::unique_ptr<Model> model;
    std::uint64_t born = 0;
    bool whole = true;
    std::vector<std::uint64_t> snapshots;  // places, the latest first
    bool snapshot_under_way = false;
    std::uint64_t rows_since_snapshot = 0;
    double seconds_since_snapshot = 0.0;  // that replaying would take
  };

  Hosted& find(const std::string& name);
  void load(Hosted& hosted, std::uint64_t base, std::uint64_t last, Recovery& recovery);
  std::uint64_t log(Hosted& hosted, const Event& event, std::int64_t time, std::uint64_t user = 0);
  SnapshotJob make_snapshot(Hosted& hosted);
  ModelReport report_of(const Hosted& hosted) const;
  Decided repeat(Hosted& hosted, const RankRequest& request, LogStore& store);

  std::filesystem::path folder_;
  ThreadPool& threads_;
  Snapshots snapshots_;
  std::map<std::string, Hosted> models_;
  std::uint32_t last_model_id_ = 0;
  std::uint64_t last_place_ = 0;
  double row_seconds_ = 20e-6;  // to read one row and apply it, without learning
  Batch batch_;
  LogStore::Erasure last_erasure_;
};

}  // namespace mcnb
