#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "mcnb/serve/store/postgres/session.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// The lease of a PostgreSQL store: one row, with an epoch that every owner raises. Every
// transaction of an owner locks the row and checks the epoch, so a node that was paused, cut off or
// late writes nothing after another took over. A thread renews the lease; by the database's clock
// it runs out `lease_seconds` after the last renewal.
class PostgresLease : public Lease {
 public:
  // If another node has the lease, or it cannot be taken because a model was last computed by a
  // node of another kind that left no snapshot: throws Error (kSystem), or with `may_follow` begins
  // without it.
  PostgresLease(const std::string& url, const StoreOptions& options);
  // Gives the lease back.
  ~PostgresLease() override;
  PostgresLease(const PostgresLease&) = delete;
  PostgresLease& operator=(const PostgresLease&) = delete;

  // Of the lease that this node took last.
  std::int64_t epoch() const { return epoch_.load(); }
  // What the sessions of an owner are called, so that the next owner can end them.
  std::string application() const;
  std::string loss() const override;
  // Takes the lease if another node has had it and it is free now. Throws Error (kSystem) if it is
  // not.
  void take_again();
  // Lets another node have the lease at once. Requires that nothing is being written.
  void give_back();

 private:
  // Returns why it could not be taken; empty if it was.
  std::string try_take();
  std::string take_after(PostgresConnection& connection, std::int64_t former);
  void set_reason(const std::string& reason);
  void renew();
  void keep();

  std::string name_;
  StoreOptions options_;
  PostgresSession taker_;    // commits synchronously
  PostgresSession renewer_;  // does not: a renewal that is lost harms nobody
  std::atomic<std::int64_t> epoch_{0};
  std::atomic<bool> taken_{false};            // another node has it, or may have it
  std::atomic<std::int64_t> valid_until_{0};  // on the steady clock, in nanoseconds
  mutable std::mutex mutex_;                  // guards what follows
  std::string reason_;                        // why it is not here
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread keeper_;
};

}  // namespace mcnb
