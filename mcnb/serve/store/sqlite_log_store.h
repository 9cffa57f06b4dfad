#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "mcnb/serve/store/event_ids.h"
#include "mcnb/serve/store/log_scrub.h"
#include "mcnb/serve/store/storage.h"
#include "mcnb/serve/store/witness.h"
#include "mcnb/serve/store/write_gate.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// The log as an SQLite database in a folder, in WAL mode, with a witness beside it. Rows carry
// checksums, and digests of ranges of rows show what is lost. Three connections share the work, so
// that reading, committing and housekeeping do not wait for each other.
class SqliteLogStore : public LogStore {
 public:
  enum class Access { kReadOnly, kReadWrite };
  static constexpr const char* kFileName = "mcnb.db";
  static constexpr std::uintmax_t kPageBytes = 8192;

  // kReadWrite makes the database if it is missing or empty, and migrates an older layout;
  // kReadOnly refuses both. Refuses a damaged database, and one that has less than the witness
  // says, without changing a file. Borrows the lease; without one, nobody is refused.
  SqliteLogStore(const std::filesystem::path& folder, Access access, const Lease* lease = nullptr,
                 const StoreOptions& options = {});
  ~SqliteLogStore() override;

  // Models of which acknowledged events are missing, and were accepted as lost
  // (StoreOptions::accept_loss). New events get positions beyond the missing ones.
  struct Loss {
    std::uint32_t model = 0;
    std::uint64_t found = 0;  // the last position that is there
  };
  const std::vector<Loss>& losses() const { return losses_; }
  // Notes that replay of the model's whole log does not give its state.
  void mark_incomplete(std::uint32_t model);

  std::uint64_t id() override;
  std::string name() const override { return reader_->database.name(); }
  std::vector<StoredModel> models() override;
  std::uint32_t new_model_id() override { return ++last_model_id_; }
  std::uint32_t highest_model_id() override;
  std::vector<std::uint32_t> models_with_rows() override;
  void commit(const Batch& batch) override;
  void acknowledge() override;
  std::optional<EventId> find_id(std::uint32_t model, std::uint64_t key) override;
  void expire_ids(std::int64_t time) override;
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
  Verified verify_next(std::uint64_t bytes) override;
  std::vector<Damage> verify_all() override;
  void probe() override;
  std::uint64_t used_bytes() override;
  void visit_ids(const std::function<void(const EventId& id)>& visit) override;
  void begin_as_copy(std::uint64_t id, std::uint32_t highest_model) override;
  // Writes a copy of the present contents into a folder, while others go on committing. Also writes
  // the copy's own witness, so that the folder is a data folder.
  void copy_to(const std::filesystem::path& folder);

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
    std::uint32_t model = 0;
    std::uint64_t position = 0;
    std::uint64_t checksum = 0;
  };
  class Transaction;

  void inspect(Database& database);
  void verify_small(Database& database);
  void compare(const std::function<Acknowledged()>& look);
  void refuse_loss(std::uint64_t number, const std::string& what);
  void take_up_witness();
  void accept_loss(const Acknowledged& told, const Acknowledged& found);
  void note_committed(const Batch& batch, std::uint64_t number);
  std::unique_ptr<Connection> connect(Database::Access access) const;
  void write_rows(const Batch& batch);
  void erase(std::span<const Sized> rows);
  void erase(std::span<const EventId> ids);
  std::vector<Sized> rows_to_erase(Statement& statement) const;
  void set_incomplete(std::uint32_t model);
  bool clear_unused();

  std::filesystem::path folder_;
  std::filesystem::path path_;
  const Lease* lease_;
  StoreOptions options_;
  WriteGate gate_;
  std::unique_ptr<Connection> writer_;  // commits; none for kReadOnly
  std::unique_ptr<Connection> keeper_;  // housekeeping; none for kReadOnly
  std::unique_ptr<Connection> reader_;
  std::unique_ptr<Statement> insert_;
  std::unique_ptr<Statement> read_;
  std::unique_ptr<IdFinder> finder_;
  std::atomic<std::uint32_t> last_model_id_{0};
  std::chrono::steady_clock::time_point last_checkpoint_;
  std::optional<LogScrub> scrub_;  // of the keeper
  EventId last_expired_;           // where the search for old ids goes on
  std::vector<Loss> losses_;
  bool loss_accepted_ = false;

  std::mutex witness_mutex_;
  std::unique_ptr<Witness> witness_;  // none for kReadOnly
  std::uint64_t witnessed_ = 0;       // commits
  std::mutex acknowledged_mutex_;     // guards what follows; is never held for long
  Acknowledged acknowledged_;         // what `acknowledge` writes
};

}  // namespace mcnb
