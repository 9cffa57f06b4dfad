#include "tests/serve/store/memory_storage.h"

#include <algorithm>
#include <sstream>

#include "mcnb/base/error.h"

namespace mcnb::cases {

using Guard = std::lock_guard<std::mutex>;

void MemoryDisk::fail_call(std::size_t number, std::optional<StorageCall> kind) {
  const Guard guard(mutex_);
  calls_to_failure_ = number;
  kind_to_fail_ = kind;
}

void MemoryDisk::fail_always(StorageCall kind) {
  const Guard guard(mutex_);
  failing_kinds_.push_back(kind);
}

void MemoryDisk::set_commit_failure(CommitFailure failure) {
  const Guard guard(mutex_);
  commit_failure_ = failure;
}

void MemoryDisk::heal() {
  const Guard guard(mutex_);
  calls_to_failure_ = 0;
  failing_kinds_.clear();
}

std::size_t MemoryDisk::calls() {
  const Guard guard(mutex_);
  return calls_;
}

std::size_t MemoryDisk::failures() {
  const Guard guard(mutex_);
  return failures_;
}

bool MemoryDisk::fails(StorageCall kind) {
  ++calls_;
  bool fails = std::ranges::count(failing_kinds_, kind) > 0;
  if (calls_to_failure_ > 0 && (!kind_to_fail_ || *kind_to_fail_ == kind)) {
    fails = fails || calls_to_failure_ == 1;
    --calls_to_failure_;
  }
  failures_ += fails ? 1 : 0;
  return fails;
}

void MemoryDisk::enter(StorageCall kind) {
  if (fails(kind)) {
    throw Error(ErrorKind::kSystem, "the memory disk fails as the test wants");
  }
}

class MemoryLease : public Lease {
 public:
  MemoryLease(MemoryDisk& disk, const std::string& name) : disk_(disk), name_(name) {
    const Guard guard(disk_.mutex_);
    MemoryDisk::Contents& contents = disk_.contents_[name_];
    if (contents.owner != 0) {
      throw Error(ErrorKind::kSystem, name_ + ": another server has this data");
    }
    own_ = contents.owner = ++disk_.last_owner_;
  }
  ~MemoryLease() override {
    const Guard guard(disk_.mutex_);
    if (is_owner()) {
      disk_.contents_[name_].owner = 0;
    }
  }
  std::string loss() const override {
    const Guard guard(disk_.mutex_);
    return is_owner() ? "" : name_ + ": another server has this data";
  }
  // Requires the disk's mutex.
  bool is_owner() const { return disk_.contents_[name_].owner == own_; }

 private:
  MemoryDisk& disk_;
  std::string name_;
  std::uint64_t own_ = 0;
};

class MemoryLog : public LogStore {
 public:
  MemoryLog(MemoryDisk& disk, std::string name, const MemoryLease& lease)
      : disk_(disk), name_(std::move(name)), lease_(lease) {
    const Guard guard(disk_.mutex_);
    if (own().id == 0) {
      own().id = 1000 + disk_.contents_.size();
    }
    last_model_id_ = own().highest_model_id;
  }

  std::uint64_t id() override { return look(StorageCall::kModels).contents.id; }
  std::string name() const override { return name_; }

  std::vector<StoredModel> models() override {
    const Look look = this->look(StorageCall::kModels);
    std::vector<StoredModel> all;
    for (const auto& [id, model] : look.contents.models) {
      all.push_back(model);
    }
    return all;
  }
  std::uint32_t new_model_id() override {
    const Look look = this->look(StorageCall::kNewModel);
    return ++last_model_id_;
  }
  std::uint32_t highest_model_id() override {
    return look(StorageCall::kModels).contents.highest_model_id;
  }
  std::vector<std::uint32_t> models_with_rows() override {
    const Look look = this->look(StorageCall::kModels);
    std::vector<std::uint32_t> all;
    for (const auto& [model, rows] : look.contents.rows) {
      if (!rows.empty()) {
        all.push_back(model);
      }
    }
    return all;
  }

  void commit(const Batch& batch) override {
    const Guard guard(disk_.mutex_);
    const bool fails = disk_.fails(StorageCall::kCommit);
    if (fails && disk_.commit_failure_ == CommitFailure::kBeforeStoring) {
      fail("the batch was not stored");
    }
    require_lease();
    MemoryDisk::Contents changed = own();
    for (const Batch::ModelChange& change : batch.models) {
      if (const auto* made = std::get_if<StoredModel>(&change)) {
        add_model(changed, *made);
      } else {
        changed.models.erase(std::get<std::uint32_t>(change));
      }
    }
    for (const LogRow& row : batch.rows) {
      if (!changed.rows[row.model].emplace(row.position, row).second) {
        fail("a position is taken");
      }
      if (const auto model = changed.models.find(row.model); model != changed.models.end()) {
        model->second.last_position = std::max(model->second.last_position, row.position);
      }
    }
    for (const EventId& id : batch.ids) {
      changed.ids[{id.model, id.key}] = id;
    }
    std::ranges::copy(batch.erasures, std::back_inserter(changed.erasures));
    own() = std::move(changed);
    if (fails) {
      fail("nobody knows whether the batch was stored");
    }
  }

  void acknowledge() override { look(StorageCall::kAcknowledge); }

  std::optional<EventId> find_id(std::uint32_t model, std::uint64_t key) override {
    const Look look = this->look(StorageCall::kRead);
    const auto found = look.contents.ids.find({model, key});
    return found == look.contents.ids.end() ? std::nullopt : std::optional(found->second);
  }
  void expire_ids(std::int64_t time) override {
    const Look look = this->look(StorageCall::kErase);
    std::erase_if(look.contents.ids, [&](const auto& entry) { return entry.second.time < time; });
  }

  std::uint64_t last_position(std::uint32_t model) override {
    const Look look = this->look(StorageCall::kRead);
    const auto stored = look.contents.models.find(model);
    const auto& rows = look.contents.rows[model];
    return std::max(stored == look.contents.models.end() ? 0 : stored->second.last_position,
                    rows.empty() ? 0 : rows.rbegin()->first);
  }
  std::optional<LogRow> read(std::uint32_t model, std::uint64_t position) override {
    const Look look = this->look(StorageCall::kRead);
    const auto& rows = look.contents.rows[model];
    const auto found = rows.find(position);
    return found == rows.end() ? std::nullopt : std::optional(found->second);
  }
  void replay(std::uint32_t model, std::uint64_t after,
              const std::function<void(const LogRow& row)>& visit) override {
    std::map<std::uint64_t, LogRow> rows;
    {
      const Look look = this->look(StorageCall::kReplay);
      rows = look.contents.rows[model];
    }
    for (auto row = rows.upper_bound(after); row != rows.end(); ++row) {
      visit(row->second);
    }
  }

  std::uint64_t position_before(std::uint32_t model, std::int64_t time) override {
    const Look look = this->look(StorageCall::kUsage);
    std::uint64_t position = 0;
    for (const auto& [at, row] : look.contents.rows[model]) {
      position = row.time < time ? at : position;
    }
    return position;
  }
  std::uint64_t position_at_share(std::uint32_t model, double share) override {
    const Look look = this->look(StorageCall::kUsage);
    const auto& rows = look.contents.rows[model];
    const auto count = static_cast<std::size_t>(static_cast<double>(rows.size()) * share);
    return count == 0 ? 0 : std::next(rows.begin(), static_cast<std::ptrdiff_t>(count) - 1)->first;
  }

  void erase_until(std::uint32_t model, std::uint64_t position) override {
    const Look look = this->look(StorageCall::kErase);
    auto& rows = look.contents.rows[model];
    const auto end = rows.upper_bound(position);
    if (end != rows.begin()) {
      set_incomplete(look.contents, model);
    }
    rows.erase(rows.begin(), end);
  }
  void erase_rows(std::uint32_t model) override {
    const Look look = this->look(StorageCall::kErase);
    look.contents.rows.erase(model);
    std::erase_if(look.contents.ids, [&](const auto& entry) { return entry.first.first == model; });
  }
  void erase_user(const Erasure& erasure) override {
    const Look look = this->look(StorageCall::kErase);
    set_incomplete(look.contents, erasure.model);
    std::erase_if(look.contents.rows[erasure.model], [&](const auto& entry) {
      return entry.first <= erasure.until && entry.second.user == erasure.user;
    });
    std::erase_if(look.contents.ids, [&](const auto& entry) {
      const EventId& id = entry.second;
      return id.model == erasure.model && id.user == erasure.user && id.position <= erasure.until;
    });
    std::erase_if(look.contents.erasures, [&](const Erasure& other) {
      return other.model == erasure.model && other.user == erasure.user &&
             other.until <= erasure.until;
    });
  }
  std::vector<Erasure> erasures() override { return look(StorageCall::kModels).contents.erasures; }

  Verified verify_next(std::uint64_t) override {
    look(StorageCall::kMaintain);
    return {.bytes = 1, .finished = true, .found = {}};
  }
  std::vector<Damage> verify_all() override { return {}; }
  void maintain() override { look(StorageCall::kMaintain); }
  void probe() override {
    const Look look = this->look(StorageCall::kProbe);
    require_lease();
  }
  void visit_ids(const std::function<void(const EventId& id)>& visit) override {
    std::map<std::pair<std::uint32_t, std::uint64_t>, EventId> ids;
    {
      const Look look = this->look(StorageCall::kRead);
      ids = look.contents.ids;
    }
    for (const auto& [key, id] : ids) {
      visit(id);
    }
  }
  void begin_as_copy(std::uint64_t id, std::uint32_t highest_model) override {
    const Look look = this->look(StorageCall::kCommit);
    require_lease();
    look.contents.id = id;
    look.contents.highest_model_id = highest_model;
    last_model_id_ = highest_model;
  }
  std::uint64_t used_bytes() override {
    const Look look = this->look(StorageCall::kUsage);
    std::uint64_t bytes = 0;
    for (const auto& [model, rows] : look.contents.rows) {
      for (const auto& [position, row] : rows) {
        bytes += sizeof row + row.body.size();
      }
    }
    return bytes;
  }
  void copy_to(const std::filesystem::path& folder) {
    const Look look = this->look(StorageCall::kBackUp);
    MemoryDisk::Contents copy = look.contents;
    MemoryDisk::Contents& target = disk_.contents_[folder.string()];
    copy.owner = 0;
    copy.snapshots = target.snapshots;
    target = std::move(copy);
  }

 private:
  // The contents, and the lock that guards them.
  struct Look {
    std::unique_lock<std::mutex> lock;
    MemoryDisk::Contents& contents;
  };
  Look look(StorageCall kind) {
    std::unique_lock lock(disk_.mutex_);
    disk_.enter(kind);
    return {std::move(lock), own()};
  }
  MemoryDisk::Contents& own() { return disk_.contents_[name_]; }

  [[noreturn]] void fail(const char* why) const {
    throw Error(ErrorKind::kSystem, name_ + ": " + why);
  }
  void require_lease() const {
    if (!lease_.is_owner()) {
      fail("another server has this data");
    }
  }
  void add_model(MemoryDisk::Contents& changed, const StoredModel& made) const {
    const bool taken = std::ranges::any_of(changed.models, [&](const auto& entry) {
      return entry.first == made.id || entry.second.name == made.name;
    });
    if (taken) {
      fail("a model's id or name is taken");
    }
    changed.models[made.id] = made;
    changed.highest_model_id = std::max(changed.highest_model_id, made.id);
  }
  static void set_incomplete(MemoryDisk::Contents& contents, std::uint32_t model) {
    if (const auto found = contents.models.find(model); found != contents.models.end()) {
      found->second.complete = false;
    }
  }

  MemoryDisk& disk_;
  std::string name_;
  const MemoryLease& lease_;
  std::uint32_t last_model_id_ = 0;
};

class MemorySnapshots : public SnapshotStore {
 public:
  MemorySnapshots(MemoryDisk& disk, std::string name) : disk_(disk), name_(std::move(name)) {}

  std::vector<std::uint32_t> models() override {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kReadSnapshot);
    std::vector<std::uint32_t> all;
    for (const auto& [model, snapshots] : own()) {
      if (!snapshots.empty()) {
        all.push_back(model);
      }
    }
    return all;
  }
  std::vector<std::uint64_t> positions(std::uint32_t model) override {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kReadSnapshot);
    return sound(model);
  }
  void write(std::uint32_t model, std::uint64_t position, const NextBytes& next) override {
    std::string bytes;
    for (std::string_view piece = next(); !piece.empty(); piece = next()) {
      bytes += piece;
    }
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kWriteSnapshot);
    own()[model][position] = {bytes};
    const std::vector<std::uint64_t> all = sound(model);
    for (std::size_t i = 2; i < all.size(); ++i) {
      own()[model].erase(all[i]);
    }
  }
  SnapshotSource open(std::uint32_t model, std::uint64_t position) override {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kReadSnapshot);
    const std::vector<std::uint64_t> all = sound(model);
    if (std::ranges::count(all, position) == 0) {
      throw Error(ErrorKind::kSystem, name_ + ": there is no such snapshot");
    }
    return {name_ + ": a snapshot",
            std::make_unique<std::istringstream>(own()[model][position].bytes)};
  }
  void set_aside(std::uint32_t model, std::uint64_t position) override {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kRemoveSnapshot);
    if (own()[model].contains(position)) {
      own()[model][position].aside = true;
    }
  }
  void remove_before(std::uint32_t model, std::uint64_t position) override {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kRemoveSnapshot);
    std::erase_if(own()[model],
                  [&](const auto& entry) { return entry.first < position || entry.second.aside; });
  }
  void remove_unfinished() override {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kRemoveSnapshot);
  }
  void copy_to(const std::filesystem::path& folder) {
    const Guard guard(disk_.mutex_);
    disk_.enter(StorageCall::kBackUp);
    disk_.contents_[folder.string()].snapshots = own();
  }

 private:
  std::map<std::uint32_t, std::map<std::uint64_t, MemoryDisk::Snapshot>>& own() {
    return disk_.contents_[name_].snapshots;
  }
  std::vector<std::uint64_t> sound(std::uint32_t model) {
    std::vector<std::uint64_t> positions;
    for (const auto& [position, snapshot] : own()[model]) {
      if (!snapshot.aside) {
        positions.insert(positions.begin(), position);
      }
    }
    return positions;
  }

  MemoryDisk& disk_;
  std::string name_;
};

class MemoryStorage : public Storage {
 public:
  MemoryStorage(MemoryDisk& disk, const std::string& name)
      : disk_(disk),
        name_(name),
        lease_(disk, name),
        log_(disk, name, lease_),
        snapshots_(disk, name) {}

  LogStore& log() override { return log_; }
  SnapshotStore& snapshots() override { return snapshots_; }
  const Lease& lease() const override { return lease_; }

  bool has_backup(const std::string& name) override {
    const Guard guard(disk_.mutex_);
    return disk_.contents_.contains(backup_name(name));
  }
  bool back_up(const std::string& name) override {
    if (has_backup(name)) {
      return false;
    }
    try {
      snapshots_.copy_to(backup_name(name));
      log_.copy_to(backup_name(name));
      return true;
    } catch (const Error&) {
      const Guard guard(disk_.mutex_);
      disk_.contents_.erase(backup_name(name));
      throw;
    }
  }

 private:
  std::string backup_name(const std::string& name) const { return name_ + "/backups/" + name; }

  MemoryDisk& disk_;
  std::string name_;
  MemoryLease lease_;
  MemoryLog log_;
  MemorySnapshots snapshots_;
};

std::unique_ptr<Storage> MemoryDisk::open(const std::string& name) {
  return std::make_unique<MemoryStorage>(*this, name);
}

void MemoryDisk::take_away_lease(const std::string& name) {
  const Guard guard(mutex_);
  contents_[name].owner = ++last_owner_;
}

void MemoryDisk::damage_snapshot(std::uint32_t model, std::uint64_t position,
                                 const std::string& name) {
  const Guard guard(mutex_);
  std::string& bytes = contents_.at(name).snapshots.at(model).at(position).bytes;
  char& byte = bytes.at(bytes.size() / 2);
  byte = static_cast<char>(byte ^ 0x40);
}

}  // namespace mcnb::cases
