#pragma once

#include "mcnb/base/error.h"
#include "mcnb/serve/store/sqlite_log_store.h"

namespace mcnb {

// Resets a statement that is kept, also if reading its row throws: an open read keeps the WAL from
// being emptied.
class Reset {
 public:
  explicit Reset(Statement& statement) : statement_(statement) {}
  ~Reset() { statement_.reset(); }
  Reset(const Reset&) = delete;
  Reset& operator=(const Reset&) = delete;

 private:
  Statement& statement_;
};

// A write transaction of one connection. Rolls back unless committed. Refuses to begin if the lease
// is lost.
class SqliteLogStore::Transaction {
 public:
  Transaction(WriteGate& gate, const Lease* lease, Database& database, bool urgent)
      : pass_(gate, urgent), database_(database), lease_(lease) {
    require_lease();
    database_.run("BEGIN IMMEDIATE");
  }
  ~Transaction() {
    if (!committed_) {
      try {
        database_.run("ROLLBACK");
      } catch (const Error&) {
        // Nothing is open any more: SQLite rolls back by itself after some errors.
      }
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Throws also if the lease was lost meanwhile: what was written may be in files that are gone.
  void commit() {
    database_.run("COMMIT");
    committed_ = true;
    require_lease();
  }

 private:
  void require_lease() const {
    if (lease_ != nullptr) {
      lease_->require();
    }
  }

  WriteGate::Pass pass_;
  Database& database_;
  const Lease* lease_;
  bool committed_ = false;
};

}  // namespace mcnb
