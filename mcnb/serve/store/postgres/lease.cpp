#include "mcnb/serve/store/postgres/lease.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

constexpr double kRenewals = 5.0;  // within the time of a lease

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string application_of(std::int64_t epoch) { return fmt::format("mcnb owner {}", epoch); }

}  // namespace

PostgresLease::PostgresLease(const std::string& url, const StoreOptions& options)
    : name_(postgres_name(url)), options_(options), taker_(url, true), renewer_(url, false) {
  if (const std::string owner = try_take(); !owner.empty()) {
    if (!options_.may_follow) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: node \"{}\" serves this store", name_, owner));
    }
    taken_ = true;
    set_owner(owner);
  }
  keeper_ = std::thread([this] { keep(); });
}

PostgresLease::~PostgresLease() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  keeper_.join();
  give_back();
}

void PostgresLease::give_back() {
  const std::lock_guard lock(renewer_.mutex);
  if (taken_.exchange(true)) {
    return;
  }
  set_owner("the next one");
  try {
    renewer_.open().run(
        "UPDATE mcnb.heartbeats SET expires = '-infinity' WHERE name = 'service' AND epoch = $1",
        PostgresValues().number(epoch_));
  } catch (const std::exception& error) {
    log_warning("the lease was not given back; it runs out", {{"detail", error.what()}});
  }
}

std::string PostgresLease::application() const { return application_of(epoch_); }

std::string PostgresLease::loss() const {
  if (taken_) {
    const std::lock_guard lock(mutex_);
    return fmt::format("{}: node \"{}\" serves this store", name_, owner_);
  }
  if (nanoseconds_now() > valid_until_) {
    return fmt::format("{}: the lease ran out, because the database could not be reached", name_);
  }
  return "";
}

void PostgresLease::set_owner(const std::string& node) {
  const std::lock_guard lock(mutex_);
  owner_ = node;
}

std::string PostgresLease::try_take() {
  const std::lock_guard lock(taker_.mutex);
  PostgresConnection& connection = taker_.open();
  try {
    const PostgresRows rows = connection.run(
        "SELECT leases.epoch, leases.node, heartbeats.expires > clock_timestamp() FROM mcnb.leases "
        "JOIN mcnb.heartbeats USING (name) WHERE name = 'service'");
    if (rows.empty()) {
      throw Error(ErrorKind::kCorrupt, name_ + ": the row of the lease is missing");
    }
    return rows.number(0, 2) != 0 ? rows.text(0, 1) : take_after(connection, rows.number(0, 0));
  } catch (...) {
    connection.drop();  // the transaction goes with the session
    throw;
  }
}

// Raises the epoch, which waits for the former owner's commit in flight. What the former owner
// committed is on disk, and on the standby, when this commit is.
std::string PostgresLease::take_after(PostgresConnection& connection, std::int64_t former) {
  const auto milliseconds = static_cast<std::int64_t>(options_.lease_seconds * 1000);
  // A paused owner may hold locks.
  connection.run(
      "SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity WHERE application_name "
      "= $1 AND datname = current_database()",
      PostgresValues().text(application_of(former)));
  const std::int64_t before = nanoseconds_now();
  connection.send("BEGIN");
  connection.send(
      "UPDATE mcnb.leases SET epoch = epoch + 1, node = $2, instance = $3 WHERE name = 'service' "
      "AND epoch = $1",
      PostgresValues().number(former).text(options_.node).text(options_.instance));
  connection.send(
      "UPDATE mcnb.heartbeats SET epoch = leases.epoch, expires = clock_timestamp() + $2 * "
      "interval '1 millisecond' FROM mcnb.leases WHERE heartbeats.name = 'service' AND leases.name "
      "= 'service' AND leases.epoch = $1 + 1",
      PostgresValues().number(former).number(milliseconds));
  connection.send("COMMIT");
  const std::vector<PostgresRows> results = connection.finish();
  if (!connection.warnings().empty()) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: the lease may not be on the standby: {}",
                                                name_, connection.warnings().front()));
  }
  if (results[1].changed() == 0) {
    return "another one, which was faster";
  }
  epoch_ = former + 1;
  valid_until_ = before + milliseconds * 1'000'000;
  taken_ = false;
  return "";
}

void PostgresLease::take_again() {
  if (!taken_) {
    return;
  }
  if (const std::string owner = try_take(); !owner.empty()) {
    set_owner(owner);
    require();
  }
}

void PostgresLease::renew() {
  const std::lock_guard lock(renewer_.mutex);
  if (taken_) {
    return;
  }
  const std::int64_t before = nanoseconds_now();
  const std::int64_t epoch = epoch_;
  const PostgresRows rows = renewer_.open().run(
      "UPDATE mcnb.heartbeats SET expires = clock_timestamp() + $2 * interval '1 millisecond' "
      "WHERE name = 'service' AND epoch = $1 AND EXISTS (SELECT 1 FROM mcnb.leases WHERE name = "
      "'service' AND epoch = $1)",
      PostgresValues().number(epoch).number(
          static_cast<std::int64_t>(options_.lease_seconds * 1000)));
  if (epoch != epoch_) {
    return;
  }
  if (rows.changed() == 0) {
    set_owner("another one");
    taken_ = true;
  } else {
    valid_until_ = before + static_cast<std::int64_t>(options_.lease_seconds * 1e9);
  }
}

void PostgresLease::keep() {
  const std::chrono::duration<double> pause(options_.lease_seconds / kRenewals);
  bool failing = false;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [&] { return stopping_; })) {
    lock.unlock();
    try {
      renew();
      failing = false;
    } catch (const std::exception& error) {
      if (!failing) {
        log_warning("the lease cannot be renewed", {{"detail", error.what()}});
      }
      failing = true;
    }
    lock.lock();
  }
}

}  // namespace mcnb
