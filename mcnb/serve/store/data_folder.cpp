// The storage of `mcnb serve --data FOLDER`: an SQLite database, files of snapshots, and a lock.

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/serve/store/folder_lock.h"
#include "mcnb/serve/store/snapshot_files.h"
#include "mcnb/serve/store/sqlite_log_store.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// The end of the name of a backup that is being made. It begins with a dot, which no name does.
constexpr std::string_view kUnfinished = ".part";

// A folder for copies that nobody else may read. It goes with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "mcnb-look-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot make a folder: {}", name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class DataFolder : public Storage {
 public:
  DataFolder(const fs::path& folder, StorageAccess access, const StoreOptions& options)
      : folder_(folder), lock_(folder, access), snapshots_(folder, lock_) {
    if (access == StorageAccess::kLook) {
      log_ = std::make_unique<SqliteLogStore>(
          readable_folder(), SqliteLogStore::Access::kReadOnly, nullptr, options);
      return;
    }
    refuse_lost_database();
    log_ = std::make_unique<SqliteLogStore>(folder, SqliteLogStore::Access::kReadWrite, &lock_,
                                            options);
    // SQLite syncs its files, but not always the names of those that it makes.
    sync_to_disk(folder);
    lock_.watch(database(), "the database");
    lock_.watch(wal(), "the WAL of the database");
    lock_.watch(folder / Witness::kFileName, "the witness of what was acknowledged");
    remove_unfinished_backups();
    for (const SqliteLogStore::Loss& loss : log_->losses()) {
      begin_after(loss);
    }
  }

  LogStore& log() override { return *log_; }
  SnapshotStore& snapshots() override { return snapshots_; }
  const Lease& lease() const override { return lock_; }

  bool has_backup(const std::string& name) override {
    std::error_code error;
    return fs::exists(backups() / name, error);
  }

  bool back_up(const std::string& name) override {
    const std::lock_guard lock(backup_mutex_);
    lock_.require();
    const fs::path target = backups() / name;
    if (has_backup(name)) {
      return false;
    }
    const fs::path unfinished = backups() / ("." + name + std::string(kUnfinished));
    std::error_code ignored;
    try {
      if (fs::create_directory(backups())) {
        sync_entry(backups());
      }
      fs::remove_all(unfinished);
      fs::create_directory(unfinished);
      snapshots_.copy_to(unfinished);
      log_->copy_to(unfinished);
      sync_to_disk(unfinished / SqliteLogStore::kFileName);
      sync_to_disk(unfinished);
      move_file(unfinished, target);
      sync_to_disk(backups());
      lock_.require();
      return true;
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
  fs::path database() const { return folder_ / SqliteLogStore::kFileName; }
  fs::path wal() const { return database().string() + "-wal"; }
  fs::path backups() const { return folder_ / "backups"; }

  // Of processes that ended while they made one.
  void remove_unfinished_backups() const {
    std::error_code problem;
    std::vector<fs::path> unfinished;
    fs::directory_iterator entry(backups(), problem);
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with('.') && name.ends_with(kUnfinished)) {
        unfinished.push_back(entry->path());
      }
    }
    for (const fs::path& folder : unfinished) {
      fs::remove_all(folder, problem);
    }
  }

  // The folder in which SQLite can read the database without writing: this one, unless it may not
  // be written and there is a WAL, which SQLite reads only with an index beside it.
  fs::path readable_folder() {
    std::error_code error;
    const bool has_wal = fs::exists(wal(), error);
    if (!has_wal || ::access(folder_.c_str(), W_OK) == 0) {
      return folder_;
    }
    scratch_.emplace();
    for (const fs::path& file : {database(), wal(), folder_ / Witness::kFileName}) {
      if (fs::exists(file, error)) {
        copy_whole_file(file, scratch_->path() / file.filename(), FileAccess::kOwner);
      }
    }
    return scratch_->path();
  }

  // Snapshots can only come from a database that has their events: a folder that has snapshots but
  // no database has lost it, and must not be taken for a new one.
  void refuse_lost_database() {
    const fs::path path = database();
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
  std::optional<ScratchFolder> scratch_;
  std::mutex backup_mutex_;
  std::unique_ptr<SqliteLogStore> log_;
};

}  // namespace

std::unique_ptr<Storage> open_data_folder(const fs::path& folder, StorageAccess access,
                                          const StoreOptions& options) {
  return std::make_unique<DataFolder>(folder, access, options);
}

}  // namespace mcnb
