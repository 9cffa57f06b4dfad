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
// it runs out `seconds` after the last renewal.
class PostgresLease : public Lease {
 public:
  // Throws Error (kSystem) if another node has the lease; with `wait`, waits until it is free.
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
  // Takes the lease again if another node took it and it is free now. Throws Error (kSystem) if it
  // is not.
  void take_again();

 private:
  // Returns the name of the node that has the lease; empty if it was taken.
  std::string try_take();
  void renew();
  void keep();

  std::string name_;
  StoreOptions options_;
  PostgresSession taker_;    // commits synchronously
  PostgresSession renewer_;  // does not: a renewal that is lost harms nobody
  std::atomic<std::int64_t> epoch_{0};
  std::atomic<bool> taken_{false};            // by another node
  std::atomic<std::int64_t> valid_until_{0};  // on the steady clock, in nanoseconds
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread keeper_;
};

}  // namespace mcnb
