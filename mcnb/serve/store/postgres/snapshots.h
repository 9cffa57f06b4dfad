#pragma once

#include <string>
#include <vector>

#include "mcnb/serve/store/postgres/lease.h"
#include "mcnb/serve/store/postgres/log_store.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// Snapshots as rows of at most a megabyte each. One transaction writes a snapshot, so it is whole
// or not there.
class PostgresSnapshots : public SnapshotStore {
 public:
  // Borrows both. Without a lease, everything is read as the log reads it, and nothing is written.
  PostgresSnapshots(const std::string& url, PostgresLogStore& log, PostgresLease* lease);

  using SnapshotStore::write;
  std::vector<std::uint32_t> models() override;
  std::vector<std::uint64_t> positions(std::uint32_t model) override;
  void write(std::uint32_t model, std::uint64_t position, const NextBytes& next) override;
  SnapshotSource open(std::uint32_t model, std::uint64_t position) override;
  void set_aside(std::uint32_t model, std::uint64_t position) override;
  void remove_before(std::uint32_t model, std::uint64_t position) override;
  void remove_unfinished() override {}  // a transaction leaves nothing half written

 private:
  struct Written {
    std::int64_t bytes = 0;
    std::int64_t pieces = 0;
    std::uint64_t digest = 0;
  };

  Written write_pieces(PostgresConnection& connection, std::int64_t id, const NextBytes& next);
  void change(const std::string& sql, std::uint32_t model, std::uint64_t position);

  PostgresLogStore& log_;
  PostgresLease* lease_;
  PostgresSession session_;
};

}  // namespace mcnb
