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

#include "mcnb/serve/events.h"
#include "mcnb/data/sqlite.h"

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

  // Makes the database where there is none (kReadWrite).
  LogStore(const std::filesystem::path& folder, Access access);

  std::vector<StoredModel> models();
  std::uint64_t last_place();
  // Rows up to this place may be missing, because they were no longer needed.
  std::uint64_t base_place();
  // The highest id that a model ever had.
  std::uint32_t last_model_id();

  // Calls `row` for every event after `place`, in order. A row borrows from the database: its body
  // lives until the next.
  void read_after(std::uint64_t place, const std::function<void(const LogRow& row)>& row);
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

  // Erases rows, some at a time, in transactions of their own.
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
  // Requires a snapshot of the model at `until` or later.
  void erase_user(const Erasure& erasure);

  // Proves that the folder can be written to.
  void probe();
  void checkpoint(bool truncate = false) { database_.checkpoint(truncate); }
  int log_pages() const { return database_.log_pages(); }
  void copy_to(const std::filesystem::path& path) { database_.copy_to(path); }
  const std::string& name() const { return database_.name(); }

 private:
  std::vector<std::uint64_t> places(Statement& statement);
  void erase(std::span<const std::uint64_t> places);
  LogRow row_of(Statement& statement);

  Database database_;
  std::unique_ptr<Statement> insert_;
  std::unique_ptr<Statement> read_;
};

}  // namespace mcnb
