#include "mcnb/serve/store/postgres/lease.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/model/computing_kind.h"

namespace mcnb {
namespace {

constexpr double kRenewals = 5.0;  // within the time of a lease

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string application_of(std::int64_t epoch) { return fmt::format("mcnb owner {}", epoch); }

// Why a node of this kind must not take over: a model whose last rows were made by another kind of
// node, which left no snapshot after them. Empty if there is none.
std::string rows_of_others(PostgresConnection& connection) {
  const std::string kind = computing_kind();
  const PostgresRows rows = connection.run(
      "SELECT name, computed_by FROM mcnb.models CROSS JOIN LATERAL (SELECT "
      "greatest(last_position, "
      "(SELECT max(position) FROM mcnb.log WHERE model = id)) AS last) AS ends WHERE computed_by "
      "NOT IN ('', $1) AND last > 0 AND NOT EXISTS (SELECT FROM mcnb.snapshots WHERE "
      "snapshots.model = models.id AND NOT aside AND snapshots.position = last) ORDER BY id LIMIT "
      "1",
      PostgresValues().text(kind));
  return rows.empty() ? "" : computed_elsewhere(rows.text(0, 0), rows.text(0, 1), kind);
}

}  // namespace

PostgresLease::PostgresLease(const std::string& url, const StoreOptions& options)
    : name_(postgres_name(url)), options_(options), taker_(url, true), renewer_(url, false) {
  if (const std::string reason = try_take(); !reason.empty()) {
    if (!options_.may_follow) {
      throw Error(ErrorKind::kSystem, fmt::format("{}: {}", name_, reason));
    }
    taken_ = true;
    set_reason(reason);
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
  set_reason("this node has given the lease to the next one");
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
    return fmt::format("{}: {}", name_, reason_);
  }
  if (nanoseconds_now() > valid_until_) {
    return fmt::format("{}: the lease ran out, because the database could not be reached", name_);
  }
  return "";
}

void PostgresLease::set_reason(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  reason_ = reason;
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
    if (rows.number(0, 2) != 0) {
      return fmt::format("node \"{}\" serves this store", rows.text(0, 1));
    }
    const std::string obstacle = rows_of_others(connection);
    return obstacle.empty() ? take_after(connection, rows.number(0, 0)) : obstacle;
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
    return "another node, which was faster, serves this store";
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
  if (const std::string reason = try_take(); !reason.empty()) {
    set_reason(reason);
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
    set_reason("another node serves this store");
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
