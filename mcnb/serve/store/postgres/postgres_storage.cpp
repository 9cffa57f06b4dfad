// The storage of `mcnb serve --store postgresql://...`.

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <mutex>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/store/copy_storage.h"
#include "mcnb/serve/store/postgres/lease.h"
#include "mcnb/serve/store/postgres/log_store.h"
#include "mcnb/serve/store/postgres/schema.h"
#include "mcnb/serve/store/postgres/snapshots.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Of somebody who only looks.
class NoLease : public Lease {
 public:
  std::string loss() const override { return ""; }
};

class PostgresStorage : public Storage {
 public:
  PostgresStorage(std::string url, StorageAccess access, const StoreOptions& options)
      : url_(std::move(url)), options_(options) {
    {
      PostgresConnection connection(url_);
      check_postgres_schema(connection);
      for (const std::string& weak : weak_settings(connection)) {
        log_warning("a setting of the PostgreSQL server is weak", {{"detail", weak}});
      }
    }
    if (access == StorageAccess::kOwn) {
      lease_ = std::make_unique<PostgresLease>(url_, options);
    }
    log_ = std::make_unique<PostgresLogStore>(url_, lease_.get());
    snapshots_ = std::make_unique<PostgresSnapshots>(url_, *log_, lease_.get());
    if (options.check_bytes > 0 && lease_ && log_->used_bytes() <= options.check_bytes) {
      refuse_damage();
    }
  }

  LogStore& log() override { return *log_; }
  SnapshotStore& snapshots() override { return *snapshots_; }
  const Lease& lease() const override {
    return lease_ ? static_cast<const Lease&>(*lease_) : no_lease_;
  }

  bool has_backup(const std::string& name) override {
    std::error_code error;
    return fs::exists(options_.backups / name, error);
  }

  // As a data folder on this machine.
  bool back_up(const std::string& name) override {
    const std::lock_guard lock(backup_mutex_);
    lease().require();
    if (has_backup(name)) {
      return false;
    }
    const fs::path unfinished = options_.backups / ("." + name + ".part");
    std::error_code ignored;
    try {
      fs::remove_all(unfinished);
      fs::create_directories(unfinished);
      {
        PostgresStorage look(url_, StorageAccess::kLook, {});
        const std::unique_ptr<Storage> target = open_data_folder(unfinished, StorageAccess::kOwn);
        copy_storage(look, *target);
      }
      sync_to_disk(unfinished);
      move_file(unfinished, options_.backups / name);
      sync_to_disk(options_.backups);
      return true;
    } catch (const fs::filesystem_error& error) {
      fs::remove_all(unfinished, ignored);
      throw Error(ErrorKind::kSystem, fmt::format("{}: cannot back up: {}", unfinished.string(),
                                                  error.code().message()));
    } catch (const Error&) {
      fs::remove_all(unfinished, ignored);
      throw;
    }
  }

 private:
  void refuse_damage() {
    const std::vector<Damage> found = log_->verify_all();
    if (!found.empty()) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: the log is damaged: {} ({} in all): restore the database from a "
                              "backup",
                              log_->name(), text_of(found.front()), found.size()));
    }
  }

  std::string url_;
  StoreOptions options_;
  NoLease no_lease_;
  std::unique_ptr<PostgresLease> lease_;
  std::unique_ptr<PostgresLogStore> log_;
  std::unique_ptr<PostgresSnapshots> snapshots_;
  std::mutex backup_mutex_;
};

}  // namespace

std::unique_ptr<Storage> open_postgres(const std::string& url, StorageAccess access,
                                       const StoreOptions& options) {
  return std::make_unique<PostgresStorage>(url, access, options);
}

}  // namespace mcnb
