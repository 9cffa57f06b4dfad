#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <span>

#include "mcnb/serve/store/storage.h"
#include "mcnb/serve/store/write_gate.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// The log as an SQLite database in a folder, in WAL mode. Rows carry checksums. Three connections
// share the work, so that reading, committing and housekeeping do not wait for each other.
class SqliteLogStore : public LogStore {
 public:
  enum class Access { kReadOnly, kReadWrite };
  static constexpr const char* kFileName = "mcnb.db";

  // kReadWrite makes the database if it is missing or empty, and migrates an older layout;
  // kReadOnly refuses both. Borrows the lease; without one, nobody is refused.
  SqliteLogStore(const std::filesystem::path& folder, Access access, const Lease* lease = nullptr);
  ~SqliteLogStore() override;

  std::uint64_t id() override;
  std::string name() const override { return reader_->database.name(); }
  std::vector<StoredModel> models() override;
  std::uint32_t new_model_id() override { return ++last_model_id_; }
  std::uint32_t highest_model_id() override;
  std::vector<std::uint32_t> models_with_rows() override;
  void commit(const Batch& batch) override;
  std::uint64_t last_position(std::uint32_t model) override;
  std::optional<LogRow> read(std::uint32_t model, std::uint64_t position) override;
  void replay(std::uint32_t model, std::uint64_t after,
              const std::function<void(const LogRow& row)>& visit) override;
  std::uint64_t position_before(std::uint32_t model, std::int64_t time) override;
  std::uint64_t position_at_share(std::uint32_t model, double share) override;
  void erase_until(std::uint32_t model, std::uint64_t position) override;
  void erase_rows(std::uint32_t model) override;
  void erase_user(const Erasure& erasure) override;
  std::vector<Erasure> erasures() override;
  void maintain() override;
  void probe() override;
  std::uint64_t used_bytes() override;
  void copy_to(const std::filesystem::path& folder) override;

 private:
  // A connection is used by one thread at a time.
  struct Connection {
    Connection(const std::filesystem::path& path, Database::Access access)
        : database(path, access) {}
    std::mutex mutex;
    Database database;
  };
  using Lock = std::lock_guard<std::mutex>;
  // A row that is to be erased.
  struct Sized {
    std::int64_t id = 0;
    std::uint64_t bytes = 0;
  };
  class Transaction;

  std::unique_ptr<Connection> connect(Database::Access access) const;
  void append(const LogRow& row);
  void put_model(const StoredModel& model);
  void set_incomplete(std::uint32_t model);
  void erase(std::span<const Sized> rows);
  bool clear_unused();
  LogRow row_of(Statement& statement) const;

  std::filesystem::path path_;
  const Lease* lease_;
  WriteGate gate_;
  std::unique_ptr<Connection> writer_;  // commits; none for kReadOnly
  std::unique_ptr<Connection> keeper_;  // housekeeping; none for kReadOnly
  std::unique_ptr<Connection> reader_;
  std::unique_ptr<Statement> insert_;
  std::unique_ptr<Statement> read_;
  std::atomic<std::uint32_t> last_model_id_{0};
  std::chrono::steady_clock::time_point last_checkpoint_;
};

}  // namespace mcnb
