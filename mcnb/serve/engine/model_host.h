#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/engine/service_error.h"
#include "mcnb/serve/model/model.h"
#include "mcnb/serve/store/log_store.h"
#include "mcnb/serve/store/snapshot_files.h"

namespace mcnb {

// What goes to disk in one transaction.
struct Batch {
  using ModelChange = std::variant<StoredModel, std::uint32_t>;  // made, or deleted: its id
  std::vector<LogRow> rows;
  std::vector<ModelChange> models;  // in the order of the requests: a name may be used again
  std::vector<LogStore::Erasure> erasures;

  bool empty() const { return rows.empty() && models.empty() && erasures.empty(); }
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
  // Models that were deleted, but not all of their rows and files.
  std::vector<std::uint32_t> orphans;
  struct Damaged {
    std::uint32_t model = 0;
    std::uint64_t place = 0;
  };
  std::vector<Damaged> damaged;  // snapshots that could not be read, and were not needed
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
  // Returns what has to be erased after the next of `forgetting_snapshots` was written. Refuses
  // (503) while a snapshot for others who are forgotten is under way: snapshots are large.
  LogStore::Erasure forget(const std::string& model, const std::string& user_id, std::int64_t time);
  // The same for an erasure that was begun before a restart.
  void resume(const LogStore::Erasure& erasure);
  // One for each model that has forgotten somebody since the last call.
  std::vector<SnapshotJob> forgetting_snapshots();
  // Refuses (503) while one of the model is under way.
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

  // Snapshots that are due: a restart would replay all models for longer than `seconds`. Of those
  // models that would take the longest, until the rest is half of it.
  std::vector<SnapshotJob> due_snapshots(double seconds);
  // Of every model that has not two at or after `place`. One that has nothing new since its latest
  // gets an event without effect, so that there can be a second.
  std::vector<SnapshotJob> snapshots_from(std::uint64_t place, std::int64_t time);
  // Of every model that has changed since its latest.
  std::vector<SnapshotJob> last_snapshots();
  void snapshot_written(std::uint32_t model, std::uint64_t place, bool alone);
  void snapshot_failed(std::uint32_t model);
  // Every model can be made from snapshots at or after this place, even if its latest is damaged.
  std::uint64_t erasable_until() const;

  Batch take_batch() { return std::exchange(batch_, {}); }
  // True once an event could not be applied: the models may know half of it, and have to be made
  // anew by `recover`; the batch must not be written.
  bool broken() const { return broken_; }
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
    bool forgets = false;               // somebody since its last snapshot
    bool forgetting_under_way = false;  // the snapshot after that
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
  std::uint64_t folder_id_ = 0;
  double row_seconds_ = 20e-6;  // to read one row and apply it, without learning
  Batch batch_;
  bool broken_ = false;
};

}  // namespace mcnb
