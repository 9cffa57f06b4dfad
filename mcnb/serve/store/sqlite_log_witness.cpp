// What the log's store refuses when it is opened, and the witness of what was acknowledged.

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_schema.h"
#include "mcnb/serve/store/log_tables.h"
#include "mcnb/serve/store/sqlite_log_store.h"
#include "mcnb/serve/store/sqlite_transaction.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostNamed = 5;  // in one message

std::uint64_t bytes_of(Database& database) {
  return to_unsigned(database.number("PRAGMA page_count") * database.number("PRAGMA page_size"));
}

// What the database holds. Requires a read transaction.
Acknowledged state_of(Database& database) {
  Acknowledged state;
  state.folder = read_fact(database, facts::kFolder);
  state.copy = read_fact(database, facts::kCopy);
  state.commit = read_fact(database, facts::kCommit);
  for (const LogEnd& end : read_log_ends(database)) {
    state.positions[end.model] = end.position;
  }
  return state;
}

// Which of the events that the witness tells of were not found; empty if all were.
std::string missing_events(const Acknowledged& told, const Acknowledged& found,
                           std::uint32_t highest_model) {
  std::string text;
  std::size_t models = 0;
  for (const auto& [model, position] : told.positions) {
    const auto own = found.positions.find(model);
    // A model that is not there was removed, unless its id was never used.
    const std::uint64_t last = own != found.positions.end() ? own->second
                               : model <= highest_model     ? position
                                                            : 0;
    if (last < position && ++models <= kMostNamed) {
      text += fmt::format("{}model {}: log rows {} to {} ({} events)", text.empty() ? "" : "; ",
                          model, last + 1, position, position - last);
    }
  }
  if (models > kMostNamed) {
    text += fmt::format("; and {} more models", models - kMostNamed);
  }
  return text;
}

}  // namespace

// Throws Error (kCorrupt) if what every start needs is damaged.
void SqliteLogStore::inspect(Database& database) {
  check_log_schema(database);
  verify_small(database);
  compare([&] {
    const ReadTransaction transaction(database);
    read_erasures(database);
    last_model_id_ = static_cast<std::uint32_t>(read_fact(database, facts::kHighestModel));
    return state_of(database);
  });
}

// Verifies the whole database if it is small.
void SqliteLogStore::verify_small(Database& database) {
  if (bytes_of(database) > options_.check_bytes) {
    return;
  }
  LogScrub scrub(database, options_.check_bytes);
  std::vector<Damage> found;
  while (!scrub.finished()) {
    scrub.step(found);
  }
  if (found.empty()) {
    return;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : "; ") + text_of(found[i]);
  }
  if (found.size() > kMostNamed) {
    text += fmt::format("; and {} more", found.size() - kMostNamed);
  }
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: the database is damaged: {}: restore the folder "
                          "from a backup",
                          database.name(), text));
}

void SqliteLogStore::refuse_loss(std::uint64_t number, const std::string& what) {
  if (options_.accept_loss != number) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: {}: restore the folder from a backup, or start with "
                            "--accept-loss {} to go on without what is missing",
                            path_.string(), what, number));
  }
  loss_accepted_ = true;
  log_warning("a loss of acknowledged events was accepted",
              {{"database", path_.string()}, {"detail", what}});
}

// Refuses a database that has less than the witness says. `look` gives what the database has, which
// is nothing if it is missing, empty or of an older layout. The witness is read first: a server
// that commits meanwhile may add to the database, and then to the witness.
void SqliteLogStore::compare(const std::function<Acknowledged()>& look) {
  std::optional<Acknowledged> told;
  std::string damage;
  try {
    told = Witness::read(folder_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      throw;
    }
    damage = error.what();
  }
  const Acknowledged found = look();
  if (!damage.empty()) {
    refuse_loss(found.commit + 1, fmt::format("{}, so nobody knows whether acknowledged events are "
                                              "missing",
                                              damage));
    return;
  }
  if (!told) {
    if (found.commit > 0) {
      refuse_loss(found.commit, fmt::format("the file {} is missing, so nobody knows whether "
                                            "acknowledged events are missing",
                                            (folder_ / Witness::kFileName).string()));
    }
    return;
  }
  if (told->commit == 0) {
    return;
  }
  const std::string missing = missing_events(*told, found, last_model_id_);
  const std::uint64_t number = told->commit;
  if (found.folder == 0) {
    refuse_loss(number, fmt::format("the database is missing, empty or of an older layout, but "
                                    "events of another one were acknowledged: {}",
                                    missing));
  } else if (found.folder != told->folder) {
    refuse_loss(number, fmt::format("the file {} belongs to another database",
                                    (folder_ / Witness::kFileName).string()));
  } else if (found.copy != told->copy) {
    refuse_loss(number,
                fmt::format("the database is a backup in the place of the one that acknowledged "
                            "events: {}",
                            missing.empty() ? "none are missing by number" : missing));
  } else if (!missing.empty() || found.commit < told->commit) {
    refuse_loss(number, fmt::format("acknowledged events are missing: {}; of {} acknowledged "
                                    "batches the last {} are not there",
                                    missing.empty() ? "none of a model" : missing, told->commit,
                                    told->commit - std::min(found.commit, told->commit)));
  }
}

// Opens the witness for writing. Makes one for a new or migrated folder, and a new one after a loss
// that was accepted.
void SqliteLogStore::take_up_witness() {
  Database& database = writer_->database;
  std::optional<Acknowledged> told;
  if (!loss_accepted_) {
    told = Witness::read(folder_);
  }
  {
    const ReadTransaction transaction(database);
    acknowledged_ = state_of(database);
  }
  if (loss_accepted_) {
    try {
      if (const auto before = Witness::read(folder_)) {
        accept_loss(*before, acknowledged_);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) {
        throw;
      }
    }
    const ReadTransaction transaction(database);
    acknowledged_ = state_of(database);
  }
  // One that tells of nothing may be left from a database that is gone.
  if (!told || told->folder != acknowledged_.folder || told->copy != acknowledged_.copy) {
    Witness::make(folder_, acknowledged_);
    told = acknowledged_;
  }
  witness_ = std::make_unique<Witness>(folder_);
  witnessed_ = told->commit;
}

// Positions, ids of models and numbers of batches that were acknowledged are never used again.
void SqliteLogStore::accept_loss(const Acknowledged& told, const Acknowledged& found) {
  if (told.folder != found.folder) {
    return;
  }
  Database& database = writer_->database;
  Transaction transaction(gate_, lease_, database, true);
  for (const auto& [model, position] : told.positions) {
    const auto own = found.positions.find(model);
    if (own != found.positions.end() && own->second < position) {
      losses_.push_back({model, own->second});
      change_model(database, model, true, position);
    }
    if (read_fact(database, facts::kHighestModel) < model) {
      write_fact(database, facts::kHighestModel, model);
    }
  }
  write_fact(database, facts::kCommit, std::max(told.commit, found.commit));
  transaction.commit();
}

void SqliteLogStore::note_committed(const Batch& batch, std::uint64_t number) {
  const Lock lock(acknowledged_mutex_);
  acknowledged_.commit = number;
  for (const Batch::ModelChange& change : batch.models) {
    if (const auto* made = std::get_if<StoredModel>(&change)) {
      acknowledged_.positions[made->id] = made->last_position;
    } else {
      acknowledged_.positions.erase(std::get<std::uint32_t>(change));
    }
  }
  for (const LogRow& row : batch.rows) {
    if (const auto found = acknowledged_.positions.find(row.model);
        found != acknowledged_.positions.end()) {
      found->second = std::max(found->second, row.position);
    }
  }
}

void SqliteLogStore::acknowledge() {
  const Lock lock(witness_mutex_);
  Acknowledged state;
  {
    const Lock own(acknowledged_mutex_);
    if (acknowledged_.commit <= witnessed_) {
      return;
    }
    state = acknowledged_;
  }
  witness_->write(state);
  witnessed_ = state.commit;
}

void SqliteLogStore::copy_to(const std::filesystem::path& folder) {
  {
    const Lock lock(keeper_->mutex);
    keeper_->database.copy_to(folder / kFileName);
  }
  // The copy goes its own way: its number tells it from the original.
  Acknowledged state;
  {
    Database copy(folder / kFileName, Database::Access::kReadWrite);
    copy.run("PRAGMA synchronous = FULL; BEGIN IMMEDIATE");
    write_fact(copy, facts::kCopy, random_number(copy));
    state = state_of(copy);
    copy.run("COMMIT");
  }
  Witness::make(folder, state);
}

void SqliteLogStore::begin_as_copy(std::uint64_t id, std::uint32_t highest_model) {
  const Lock lock(writer_->mutex);
  Database& database = writer_->database;
  {
    Transaction transaction(gate_, lease_, database, true);
    check(read_fact(database, facts::kCommit) == 0, "nothing was committed before");
    write_fact(database, facts::kFolder, id);
    write_fact(database, facts::kHighestModel, highest_model);
    transaction.commit();
  }
  last_model_id_ = highest_model;
  const Lock own(acknowledged_mutex_);
  acknowledged_.folder = id;
}

void SqliteLogStore::visit_ids(const std::function<void(const EventId& id)>& visit) {
  const Lock lock(reader_->mutex);
  constexpr std::size_t kAtOnce = 1000;
  std::vector<EventId> ids;
  // Keys are stored as signed numbers.
  EventId last{.model = 0, .key = std::uint64_t{1} << 63};
  do {
    ids = ids_after(reader_->database, last, kAtOnce);
    for (const EventId& id : ids) {
      visit(id);
      last = id;
    }
  } while (!ids.empty());
}

}  // namespace mcnb
