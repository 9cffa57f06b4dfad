#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/serve/model/events.h"
#include "mcnb/serve/store/write_gate.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// One event in the log of all models. Places go up by one over all models together, and are never
// used again.
struct LogRow {
  std::uint64_t place = 0;
  std::uint32_t model = 0;
  EventKind kind{};
  std::int64_t time = 0;
  std::uint64_t user = 0;  // hash of the user whose event it is; 0: nobody's
  std::string body;
};

struct StoredModel {
  std::uint32_t id = 0;
  std::string name;
  OptionValues options;
  std::uint64_t born = 0;  // the place of its first event is greater
  bool whole = true;       // no event of it has been erased for a user's sake
};

// The database of one data folder: the models and the log. Rows carry checksums. A connection is
// for one thread; several, in the same process, can be open at once.
//
// Errors are Error: kCorrupt for damage, kSystem where the system refuses.
class LogStore {
 public:
  enum class Access { kReadOnly, kReadWrite };
  static constexpr const char* kFileName = "mcnb.db";

  // Makes the database where there is none (kReadWrite), unless the folder has snapshots: then a
  // database is missing (kCorrupt). Borrows the gate that the connections of one process share;
  // `urgent`: clients wait for what this one writes.
  LogStore(const std::filesystem::path& folder, Access access, WriteGate* gate = nullptr,
           bool urgent = false);
  ~LogStore();

  // A number that this database has and no other; copies share it.
  std::uint64_t folder_id();

  std::vector<StoredModel> models();
  std::uint64_t last_place();
  // Rows up to this place may be missing, because they were no longer needed.
  std::uint64_t base_place();
  // The highest id that a model ever had.
  std::uint32_t last_model_id();
  bool has_model(std::uint32_t id);
  // Every model that has rows, also those that were deleted.
  std::vector<std::uint32_t> models_in_log();

  // Calls `row` for every event after `place`, in order. A row borrows from the database: its body
  // lives until the next.
  void read_after(std::uint64_t place, const std::function<void(const LogRow& row)>& row);
  // The same, of one model: rows of others are not read.
  void read_after(std::uint64_t place, std::uint32_t model,
                  const std::function<void(const LogRow& row)>& row);
  std::optional<LogRow> read(std::uint64_t place);
  // The highest place of a row that is older than `time`.
  std::uint64_t last_place_before(std::int64_t time);
  // Bytes of the database that hold something.
  std::uint64_t used_bytes();
  // The place below which about this share of the rows lies.
  std::uint64_t place_at_share(double share);

  // All or nothing: rows are on disk when `commit` returns.
  void begin();
  void append(const LogRow& row);
  void put_model(const StoredModel& model);
  void remove_model(std::uint32_t id);
  void commit();
  // Takes back what has happened since `begin`; does not throw.
  void roll_back() noexcept;

  // Erases rows, some at a time, in transactions of their own, with pauses between them.
  void erase_until(std::uint64_t place);
  void erase_model(std::uint32_t model);
  // A user whose rows are still to be erased: known until that is done.
  struct Erasure {
    std::uint32_t model = 0;
    std::uint64_t user = 0;
    std::uint64_t until = 0;
  };
  std::vector<Erasure> erasures();
  void add_erasure(const Erasure& erasure);  // inside a transaction
  // Requires a snapshot of the model at `until` or later. When it returns, nothing of the rows is
  // in the database or in the log beside it. Throws Error (kSystem) where somebody is in the way;
  // the erasure then stays known.
  void erase_user(const Erasure& erasure);

  // Proves that the folder can be written to.
  void probe();
  // Writes the log beside the database back; `truncate`: and empties it. False where somebody was
  // in the way.
  bool checkpoint(bool truncate = false);
  int log_pages() const { return database_.log_pages(); }
  void copy_to(const std::filesystem::path& path) { database_.copy_to(path); }
  const std::string& name() const { return database_.name(); }

 private:
  struct Sized {
    std::uint64_t place = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Sized> sizes(Statement& statement);
  void erase(std::span<const Sized> rows);
  void change(const std::function<void()>& work);
  void keep_last_place();
  void enter();
  void leave() noexcept;
  LogRow row_of(Statement& statement);

  WriteGate* gate_;
  bool urgent_;
  bool inside_ = false;  // the gate
  Database database_;
  std::unique_ptr<Statement> insert_;
  std::unique_ptr<Statement> read_;
};

}  // namespace mcnb
