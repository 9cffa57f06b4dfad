#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/serve/model/events.h"

namespace mcnb {

// What the service keeps: the models, the log of their events, and snapshots of their states.
//
// Everything here may be called from several threads at once. Errors are Error: kCorrupt for
// damaged data, kSystem if the system refuses (disk full, no rights, somebody else has the data).

// One event of one model. The positions of a model's events go up from 1 and are never used again.
// Gaps are normal: events of forgotten users are erased.
struct LogRow {
  std::uint32_t model = 0;
  std::uint64_t position = 0;
  EventKind kind{};
  std::int64_t time = 0;   // milliseconds since 1970; never goes back within a model
  std::uint64_t user = 0;  // hash of the name of the user whose event it is; 0: no user's
  std::string body;        // encode_event
};

struct StoredModel {
  std::uint32_t id = 0;
  std::string name;
  OptionValues options;  // also those that the program which made the model did not know yet
  bool complete = true;  // no event has been erased, so replay from position 0 gives the state
  std::uint64_t last_position = 0;  // of the last event that was committed, erased or not
  // The kind of node (computing_kind) that made all rows after `computed_from`. Empty: nobody noted
  // it.
  std::string computed_by;
  std::uint64_t computed_from = 0;
};

// A user whose events up to a position are still to be erased.
struct Erasure {
  std::uint32_t model = 0;
  std::uint64_t user = 0;  // hash of the name
  std::uint64_t until = 0;
};

// An id that a client gave to a decision or a reward, as a hash, so that a repeated request is
// recognised. It outlives the row in the log.
struct EventId {
  std::uint32_t model = 0;
  std::uint64_t key = 0;       // hash of the id
  std::uint64_t position = 0;  // of the row
  std::int64_t time = 0;       // of the row
  std::uint64_t user = 0;      // hash of the user's name
};

// What is committed together.
struct Batch {
  using ModelChange = std::variant<StoredModel, std::uint32_t>;  // a new model, or a removed id
  std::vector<ModelChange> models;  // in order: a name may be removed and used again
  std::vector<LogRow> rows;
  std::vector<EventId> ids;       // become known to `find_id`, in place of older ones
  std::vector<Erasure> erasures;  // become known to `erasures`

  bool empty() const { return rows.empty() && models.empty() && erasures.empty(); }
};

// Stored data that is not what was written.
struct Damage {
  std::uint32_t model = 0;  // 0: it concerns all models
  std::uint64_t first = 0;  // the positions of the rows; 0: it concerns no rows
  std::uint64_t last = 0;
  std::string what;  // for people
};
// For people: the rows and what is wrong with them.
std::string text_of(const Damage& damage);

// The models and their events.
class LogStore {
 public:
  virtual ~LogStore() = default;

  // A number that this store has and no other. Its copies and backups share it.
  virtual std::uint64_t id() = 0;
  // What error messages call the store.
  virtual std::string name() const = 0;

  virtual std::vector<StoredModel> models() = 0;
  // An id that no model of this store ever had and that no other caller gets.
  virtual std::uint32_t new_model_id() = 0;
  // The highest id that a committed model ever had.
  virtual std::uint32_t highest_model_id() = 0;
  // Ids of all models that have rows, including removed ones.
  virtual std::vector<std::uint32_t> models_with_rows() = 0;

  // Notes, durably, that nodes of this kind make the rows of the model after a position. A store
  // that only one process uses keeps no such notes.
  virtual void note_kind(std::uint32_t /*model*/, const std::string& /*kind*/,
                         std::uint64_t /*after*/) {}

  // All or nothing. The batch is durable when `commit` returns. If it throws, the batch is normally
  // not stored, but the failure may have come after the disk took it: read the models again before
  // going on. Throws (kSystem) if a row's position or a model's name is taken, or the lease is
  // lost.
  virtual void commit(const Batch& batch) = 0;

  // Notes outside the log, durably, that every batch committed so far may be acknowledged. A store
  // that is opened later with less refuses (StoreOptions). Call it after `commit` and before
  // anybody is told; it may run beside the next `commit`. Throws (kSystem).
  virtual void acknowledge() = 0;

  // The latest id with this key; nullopt if there is none.
  virtual std::optional<EventId> find_id(std::uint32_t model, std::uint64_t key) = 0;
  // Drops ids that are older than `time`: some of them at each call, all of them in time.
  virtual void expire_ids(std::int64_t time) = 0;

  // The last position of a model that was committed; 0 for a model without events.
  virtual std::uint64_t last_position(std::uint32_t model) = 0;
  virtual std::optional<LogRow> read(std::uint32_t model, std::uint64_t position) = 0;
  // Calls `visit` for every row of the model after a position, in order. `visit` must not call this
  // store.
  virtual void replay(std::uint32_t model, std::uint64_t after,
                      const std::function<void(const LogRow& row)>& visit) = 0;

  // The position up to which all rows of the model are older than `time`; 0 if none is.
  virtual std::uint64_t position_before(std::uint32_t model, std::int64_t time) = 0;
  // The position up to which about this share (0 to 1) of the model's rows lies; 0 if it has none.
  virtual std::uint64_t position_at_share(std::uint32_t model, double share) = 0;

  // Erasing takes its time and lets commits go first. An erasure that was cut short can be asked
  // for again.
  // Erases the model's rows up to a position.
  virtual void erase_until(std::uint32_t model, std::uint64_t position) = 0;
  // Erases all rows and ids of a model, which must have been removed.
  virtual void erase_rows(std::uint32_t model) = 0;
  // Erases a user's rows and ids. No byte of them is left in the store when it returns, and only
  // then does `erasures` drop the entry. Requires that no replay needs them: see
  // Storage::erase_user.
  virtual void erase_user(const Erasure& erasure) = 0;
  // Erasures that were committed and are not finished.
  virtual std::vector<Erasure> erasures() = 0;

  // Does what the store needs now and then. Call it several times a second on a thread that
  // answers nobody.
  virtual void maintain() = 0;
  // Verifies the next part of the store, about so many bytes, and goes on from there at the next
  // call. `finished`: the last part was verified, and the next call begins anew.
  struct Verified {
    std::uint64_t bytes = 0;
    bool finished = false;
    std::vector<Damage> found;
  };
  virtual Verified verify_next(std::uint64_t bytes) = 0;
  // Verifies everything there is, which takes its time.
  virtual std::vector<Damage> verify_all() = 0;
  // Returns if a batch could be committed now, throws if not.
  virtual void probe() = 0;
  // Bytes that the models and rows take, without the ids.
  virtual std::uint64_t used_bytes() = 0;

  // For copies of a store: calls `visit` for every id of an event. `visit` must not call this
  // store.
  virtual void visit_ids(const std::function<void(const EventId& id)>& visit) = 0;
  // Becomes a copy of the store with this number, which gave ids of models up to `highest_model`.
  // Requires that nothing was ever committed here.
  virtual void begin_as_copy(std::uint64_t id, std::uint32_t highest_model) = 0;
};

// A snapshot that is being read.
struct SnapshotSource {
  std::string name;  // for error messages
  std::unique_ptr<std::istream> bytes;
};

// The next piece of some bytes, valid until the next call; empty at the end. May throw Error.
using NextBytes = std::function<std::string_view()>;

// Names a piece of a saved state: the XXH3-128 of its bytes.
struct PieceName {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const PieceName&) const = default;
  using Stored = StoredInOrder<&PieceName::low, &PieceName::high>;
};

struct SnapshotPiece {
  PieceName name;
  std::uint32_t size = 0;
  std::string_view bytes;  // valid until the next piece; empty if the store has them
};

// Pieces that a store has. Does not change, and can be used by any thread.
class KnownPieces {
 public:
  virtual ~KnownPieces() = default;
  virtual bool has(const PieceName& name) const = 0;
};

// The contents of a saved state (base/framed_state.h) in pieces, of which a store keeps each one
// once.
struct PiecedState {
  std::uint64_t seed = 0;                    // of the names
  std::shared_ptr<const KnownPieces> known;  // those that come without their bytes; may be null
  std::function<std::optional<SnapshotPiece>()> next;  // nullopt at the end; may throw Error
};

// The saved states of models. A snapshot at a position holds the effect of all events of its model
// up to there. The two latest of each model are kept, and share no byte on the disk, so that damage
// of one does not reach the other.
class SnapshotStore {
 public:
  virtual ~SnapshotStore() = default;

  // Every model that has something here, sound or set aside.
  virtual std::vector<std::uint32_t> models() = 0;
  // Positions of a model's snapshots, the latest first.
  virtual std::vector<std::uint64_t> positions(std::uint32_t model) = 0;

  // Durable when it returns, and whole or not there at all. Removes the oldest beyond two. If there
  // is a snapshot at this position with other bytes, it is damaged and set aside.
  // What `next` throws ends the writing, and leaves things as they were.
  virtual void write(std::uint32_t model, std::uint64_t position, const NextBytes& next) = 0;
  void write(std::uint32_t model, std::uint64_t position, const std::string& bytes);
  // The same of a state in pieces. Throws (kSystem) if the pieces of `known` are gone. A store that
  // does not override this and the next function writes all bytes of every snapshot.
  virtual void write_pieces(std::uint32_t model, std::uint64_t position, const PiecedState& state);
  // The pieces that the next snapshot need not bring; nullptr if there are none. `alone`: for one
  // after which all others are removed. Returns at once.
  virtual std::shared_ptr<const KnownPieces> known_pieces(std::uint32_t model, bool alone);
  // Throws (kSystem) if there is no such snapshot.
  virtual SnapshotSource open(std::uint32_t model, std::uint64_t position) = 0;
  // Takes a damaged snapshot out of `positions` but keeps its bytes as evidence.
  virtual void set_aside(std::uint32_t model, std::uint64_t position) = 0;
  // Removes everything of a model, also what was set aside, except snapshots from `position` on. No
  // byte of the rest is left.
  virtual void remove_before(std::uint32_t model, std::uint64_t position) = 0;
  // Removes what a crash left half written. Call it before the first snapshot is written.
  virtual void remove_unfinished() = 0;
};

// The right to use a store, for as long as the object lives.
class Lease {
 public:
  virtual ~Lease() = default;
  // Why nothing may be written any more: somebody else may have the store by now, or its files are
  // no longer where a restart looks for them. Empty while all is well. Safe from any thread.
  virtual std::string loss() const = 0;
  bool held() const { return loss().empty(); }
  // Throws Error (kSystem) unless the lease is held. Ask before something is written, and again
  // before it is acknowledged.
  void require() const;
};

// A log, its snapshots, and the lease under which they are used.
class Storage {
 public:
  virtual ~Storage() = default;

  virtual LogStore& log() = 0;
  virtual SnapshotStore& snapshots() = 0;
  virtual const Lease& lease() const = 0;
  // Lets another owner have the store at once, before this object goes. Call it when nothing is
  // being written, and write nothing after it.
  virtual void give_back() {}

  virtual bool has_backup(const std::string& name) = 0;
  // Copies the snapshots, then the log, which therefore has every event that they need. Durable
  // when it returns, and whole or not there at all. Returns false, and changes nothing, if there is
  // a backup of this name. Requires a name that can be a file's name and does not begin with a dot.
  virtual bool back_up(const std::string& name) = 0;

  // Removed models of which rows or snapshots are left.
  std::vector<std::uint32_t> leftover_models();
  // Erases what is left of a removed model.
  void erase_model(std::uint32_t model);
  // Erases a user's rows. Throws (kSystem) unless all snapshots of the model know that the user is
  // gone: a restart needs one of them instead of the rows.
  void erase_user(const Erasure& erasure);
};

enum class StorageAccess {
  kOwn,   // to serve: one owner at a time; makes the folder and migrates an older layout
  kLook,  // read only, beside others who look; nobody may serve meanwhile
};

struct StoreOptions {
  // A log that takes at most so many bytes is verified whole when it is opened. Of a larger one
  // only what every start needs is verified then, and the rest by `verify_next`.
  std::uint64_t check_bytes = std::uint64_t{64} << 20;
  // Goes on without acknowledged events that are missing, if this is the number that the refusal
  // names.
  std::uint64_t accept_loss = 0;

  // Of a PostgreSQL store alone.
  std::string node = "mcnb";      // what other nodes call this one
  std::string instance;           // a random text that no other process has
  double lease_seconds = 5.0;     // after which another node may take over from a silent one
  bool may_follow = false;        // begin without the lease if another node has it
  std::filesystem::path backups;  // the folder of `back_up`
};

// Opens a data folder (docs/FORMATS.md). kLook writes nothing into a folder that may only be read:
// if its database has a WAL, it reads a temporary copy of both. Throws Error: kSystem if somebody
// else has the folder, kCorrupt if it is damaged, has less than was acknowledged, or is of a layout
// that cannot be read. What is refused stays as it is.
std::unique_ptr<Storage> open_data_folder(const std::filesystem::path& folder, StorageAccess access,
                                          const StoreOptions& options = {});

// Opens a PostgreSQL database by its URL. kLook sees one state of it, however long it looks, and
// may do so beside the owner. Throws Error: kUsage for a bad URL or a database without tables,
// kSystem if another node has it or it cannot be reached, kCorrupt.
std::unique_ptr<Storage> open_postgres(const std::string& url, StorageAccess access,
                                       const StoreOptions& options = {});

// Opens a store that is named by a URL of PostgreSQL or by the path of a folder.
std::unique_ptr<Storage> open_storage(const std::string& name, StorageAccess access,
                                      const StoreOptions& options = {});

}  // namespace mcnb
