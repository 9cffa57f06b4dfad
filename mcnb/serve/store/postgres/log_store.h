#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mcnb/serve/store/log_ranges.h"
#include "mcnb/serve/store/postgres/lease.h"
#include "mcnb/serve/store/postgres/session.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// The log in a PostgreSQL database. A batch is one transaction, sent in one piece: it locks the
// lease, writes the rows, and counts the batch. Rows carry checksums, and digests of ranges of rows
// show what is lost. Three sessions share the work, so that reading, committing and housekeeping do
// not wait for each other.
//
// A commit whose answer never came is looked up by its number in a new session, after the old one
// was ended; one that is found counts once a later commit was confirmed.
class PostgresLogStore : public LogStore {
 public:
  // Borrows the lease. Without one, everything is read in one transaction and nothing is written.
  PostgresLogStore(const std::string& url, PostgresLease* lease);

  std::uint64_t id() override;
  std::string name() const override { return name_; }
  std::vector<StoredModel> models() override;
  std::uint32_t new_model_id() override;
  std::uint32_t highest_model_id() override;
  std::vector<std::uint32_t> models_with_rows() override;
  void note_kind(std::uint32_t model, const std::string& kind, std::uint64_t after) override;
  void commit(const Batch& batch) override;
  // What is committed is on disk, and on the standby: there is nothing to note.
  void acknowledge() override {}
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
  void maintain() override {}  // PostgreSQL vacuums by itself
  Verified verify_next(std::uint64_t bytes) override;
  std::vector<Damage> verify_all() override;
  void probe() override;
  std::uint64_t used_bytes() override;
  void visit_ids(const std::function<void(const EventId& id)>& visit) override;
  void begin_as_copy(std::uint64_t id, std::uint32_t highest_model) override;

  // Reads with the session for reading, which sees one state if there is no lease.
  template <class Work>
  auto reading(Work work) {
    const std::lock_guard lock(reader_.mutex);
    return lease_ == nullptr ? work(look()) : reader_.read(work);
  }

 private:
  using Lock = std::lock_guard<std::mutex>;
  // Where a verification goes on: after this range of rows, or after this id.
  struct Scrub {
    std::int64_t model = -1;
    std::int64_t number = -1;
    bool ids = false;
  };

  PostgresConnection& look();
  void write(const Batch& batch, std::int64_t number);
  bool settle(std::int64_t number);
  std::int64_t stored_batches(PostgresConnection& connection) const;
  void require_acknowledged(std::int64_t stored) const;
  std::uint64_t erase_some(const std::string& which, const PostgresValues& values);
  void set_incomplete(std::uint32_t model);
  void keep(const std::string& sql, const PostgresValues& values);
  // `together`: a transaction sees one state already.
  Verified verify_some(PostgresConnection& connection, bool together);
  Verified verify_ids(PostgresConnection& connection);
  Verified verify_range(PostgresConnection& connection, bool together);
  static void note_damage(Verified& verified, const Damage& where,
                          const std::function<void()>& check);

  std::string name_;
  PostgresLease* lease_;
  PostgresSession writer_;
  PostgresSession keeper_;
  PostgresSession reader_;
  bool looking_ = false;      // the reader has begun its one transaction
  std::int64_t batches_ = 0;  // of the present epoch that were acknowledged, or found
  std::int64_t epoch_ = -1;   // of `batches_`
  Scrub scrub_;               // of the keeper
};

}  // namespace mcnb
