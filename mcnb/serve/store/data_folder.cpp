// The storage of `mcnb serve --data FOLDER`: an SQLite database, files of snapshots, and a lock.

#include <fmt/core.h>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/folder_lock.h"
#include "mcnb/serve/store/snapshot_files.h"
#include "mcnb/serve/store/sqlite_log_store.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

SqliteLogStore::Access log_access(StorageAccess access) {
  return access == StorageAccess::kOwn ? SqliteLogStore::Access::kReadWrite
                                       : SqliteLogStore::Access::kReadOnly;
}

class DataFolder : public Storage {
 public:
  DataFolder(const fs::path& folder, StorageAccess access, const StoreOptions& options)
      : folder_(folder), lock_(folder, access), snapshots_(folder) {
    if (access == StorageAccess::kOwn) {
      refuse_lost_database();
    }
    log_ = std::make_unique<SqliteLogStore>(folder, log_access(access), &lock_, options);
    for (const SqliteLogStore::Loss& loss : log_->losses()) {
      begin_after(loss);
    }
  }

  LogStore& log() override { return *log_; }
  SnapshotStore& snapshots() override { return snapshots_; }
  const Lease& lease() const override { return lock_; }

  bool has_backup(const std::string& name) override { return fs::exists(backup_folder(name)); }

  void back_up(const std::string& name) override {
    const fs::path target = backup_folder(name);
    const fs::path unfinished = backup_folder("." + name + ".part");
    std::error_code ignored;
    try {
      fs::remove_all(unfinished);
      fs::create_directories(unfinished);
      snapshots_.copy_to(unfinished);
      log_->copy_to(unfinished);
      fs::rename(unfinished, target);
    } catch (const fs::filesystem_error& error) {
      fs::remove_all(unfinished, ignored);
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot back up: {}", target.string(), error.code().message()));
    } catch (const Error&) {
      fs::remove_all(unfinished, ignored);
      throw;
    }
  }

 private:
  fs::path backup_folder(const std::string& name) const { return folder_ / "backups" / name; }

  // Snapshots can only come from a database that has their events: a folder that has snapshots but
  // no database has lost it, and must not be taken for a new one.
  void refuse_lost_database() {
    const fs::path path = folder_ / SqliteLogStore::kFileName;
    std::error_code missing;
    const std::uintmax_t size = fs::file_size(path, missing);
    if ((missing || size == 0) && !snapshots_.models().empty()) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: it is {}, but the folder has snapshots: restore it from a "
                              "backup, or move the snapshots away to begin anew",
                              path.string(), missing ? "missing" : "empty"));
    }
  }

  // Rows that were lost may lie between two snapshots. The latest one has their effect: the model
  // begins with it.
  void begin_after(const SqliteLogStore::Loss& loss) {
    const std::vector<std::uint64_t> positions = snapshots_.positions(loss.model);
    if (positions.empty() || positions.front() <= loss.found) {
      return;
    }
    for (std::size_t i = 1; i < positions.size(); ++i) {
      snapshots_.set_aside(loss.model, positions[i]);
    }
    log_->mark_incomplete(loss.model);
  }

  fs::path folder_;
  FolderLock lock_;
  SnapshotFiles snapshots_;
  std::unique_ptr<SqliteLogStore> log_;
};

}  // namespace

std::unique_ptr<Storage> open_data_folder(const fs::path& folder, StorageAccess access,
                                          const StoreOptions& options) {
  return std::make_unique<DataFolder>(folder, access, options);
}

}  // namespace mcnb
