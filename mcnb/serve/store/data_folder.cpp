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
  DataFolder(const fs::path& folder, StorageAccess access)
      : folder_(folder), lock_(folder, access), snapshots_(folder) {
    if (access == StorageAccess::kOwn) {
      refuse_lost_database();
    }
    log_ = std::make_unique<SqliteLogStore>(folder, log_access(access), &lock_);
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

  fs::path folder_;
  FolderLock lock_;
  SnapshotFiles snapshots_;
  std::unique_ptr<SqliteLogStore> log_;
};

}  // namespace

std::unique_ptr<Storage> open_data_folder(const fs::path& folder, StorageAccess access) {
  return std::make_unique<DataFolder>(folder, access);
}

}  // namespace mcnb
