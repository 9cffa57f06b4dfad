#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/serve/store/storage.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// The small tables of the log's database: models, erasures and facts. Every row has a checksum, and
// `facts` holds the sums of those of the other two, so that a row that is lost is noticed. What
// reads throws Error (kCorrupt) naming the row for damage. What writes must run in a transaction.

// Reads that belong together see one state of the database.
class ReadTransaction {
 public:
  explicit ReadTransaction(Database& database) : database_(database) { database_.run("BEGIN"); }
  ~ReadTransaction();
  ReadTransaction(const ReadTransaction&) = delete;
  ReadTransaction& operator=(const ReadTransaction&) = delete;

 private:
  Database& database_;
};

// The names of all facts.
namespace facts {
inline constexpr const char* kHighestModel = "model";  // the highest id that a model ever had
inline constexpr const char* kFolder = "folder";       // random; snapshots carry it
inline constexpr const char* kCopy = "copy";           // random; a backup has another one
inline constexpr const char* kCommit = "commit";       // batches that were ever committed
inline constexpr const char* kModels = "models";       // the sum of the checksums of `models`
inline constexpr const char* kErasures = "erasures";   // the sum of the checksums of `erasures`
}  // namespace facts

// For the facts that tell databases and their copies apart.
std::uint64_t random_number(Database& database);
std::uint64_t read_fact(Database& database, const char* name);
void write_fact(Database& database, const char* name, std::uint64_t value);

// The options of a model as bytes that end with a checksum.
std::string encode_options(const OptionValues& options);
// Reads the options of a model from the bytes that are stored. Throws Error (kCorrupt) naming
// `what` for damage.
OptionValues decode_options(std::string_view bytes, const std::string& what);

// Reads all models as they are stored: without the options that the program adds, and with the
// `last_position` of the row. Requires a read transaction.
std::vector<StoredModel> read_models(Database& database);
void add_model(Database& database, const StoredModel& model);
void remove_model(Database& database, std::uint32_t id);
// Raises the model's last position, and notes it as incomplete unless `complete`. Does nothing for
// an unknown model.
void change_model(Database& database, std::uint32_t id, bool complete, std::uint64_t last_position);

// Requires a read transaction.
std::vector<Erasure> read_erasures(Database& database);
void put_erasure(Database& database, const Erasure& erasure);
// Removes a user's erasures up to the position.
void remove_erasures(Database& database, const Erasure& erasure);

// The end of every model's log: the last row that is there, or that was there. Requires a read
// transaction.
struct LogEnd {
  std::uint32_t model = 0;
  std::string name;
  std::uint64_t position = 0;
};
std::vector<LogEnd> read_log_ends(Database& database);

}  // namespace mcnb
