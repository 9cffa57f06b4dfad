#include "mcnb/serve/store/postgres/lease.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRenewals = 5.0;  // within the time of a lease
constexpr std::chrono::milliseconds kPoll{100};

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

std::string application_of(std::int64_t epoch) { return fmt::format("mcnb owner {}", epoch); }

}  // namespace

PostgresLease::PostgresLease(const std::string& url, const StoreOptions& options)
    : name_(postgres_name(url)), options_(options), taker_(url, true), renewer_(url, false) {
  for (bool told = false;;) {
    const std::string owner = try_take();
    if (owner.empty()) {
      break;
    }
    if (!options_.wait_for_lease) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: node \"{}\" serves this store", name_, owner));
    }
    if (!told) {
      log_info("another node serves this store; waiting until it ends", {{"node", owner}});
      told = true;
    }
    std::this_thread::sleep_for(kPoll);
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
  try {
    const std::lock_guard lock(taker_.mutex);
    taker_.open().run(
        "UPDATE mcnb.heartbeats SET expires = '-infinity' WHERE name = 'service' AND epoch = $1",
        PostgresValues().number(epoch_));
  } catch (const std::exception& error) {
    log_warning("the lease was not given back; it runs out", {{"detail", error.what()}});
  }
}

std::string PostgresLease::application() const { return application_of(epoch_); }

std::string PostgresLease::loss() const {
  if (taken_) {
    return fmt::format("{}: another node has taken over", name_);
  }
  if (nanoseconds_now() > valid_until_) {
    return fmt::format("{}: the lease ran out, because the database could not be reached", name_);
  }
  return "";
}

// Raises the epoch, which waits for the former owner's commit in flight. What the former owner
// committed is on disk, and on the standby, when this commit is.
std::string PostgresLease::try_take() {
  const std::lock_guard lock(taker_.mutex);
  PostgresConnection& connection = taker_.open();
  const PostgresRows rows = connection.run(
      "SELECT leases.epoch, leases.node, heartbeats.expires > clock_timestamp() FROM mcnb.leases "
      "JOIN mcnb.heartbeats USING (name) WHERE name = 'service'");
  if (rows.empty()) {
    throw Error(ErrorKind::kCorrupt, name_ + ": the row of the lease is missing");
  }
  if (rows.number(0, 2) != 0) {
    return rows.text(0, 1);
  }
  const std::int64_t former = rows.number(0, 0);
  // A paused owner may hold locks.
  connection.run(
      "SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity WHERE application_name "
      "= $1 AND datname = current_database()",
      PostgresValues().text(application_of(former)));
  const std::int64_t before = nanoseconds_now();
  connection.send("BEGIN");
  connection.send(
      "UPDATE mcnb.leases SET epoch = epoch + 1, node = $2 WHERE name = 'service' AND epoch = $1",
      PostgresValues().number(former).text(options_.node));
  connection.send(
      "UPDATE mcnb.heartbeats SET epoch = leases.epoch, expires = clock_timestamp() + $2 * "
      "interval '1 millisecond' FROM mcnb.leases WHERE heartbeats.name = 'service' AND leases.name "
      "= 'service' AND leases.epoch = $1 + 1",
      PostgresValues().number(former).number(
          static_cast<std::int64_t>(options_.lease_seconds * 1000)));
  connection.send("COMMIT");
  const std::vector<PostgresRows> results = connection.finish();
  if (!connection.warnings().empty()) {
    connection.drop();
    throw Error(ErrorKind::kSystem, fmt::format("{}: the lease may not be on the standby: {}",
                                                name_, connection.warnings().front()));
  }
  if (results[1].changed() == 0) {
    return "another one, which was faster";
  }
  epoch_ = former + 1;
  valid_until_ = before + static_cast<std::int64_t>(options_.lease_seconds * 1e9);
  taken_ = false;
  return "";
}

void PostgresLease::take_again() {
  if (!taken_) {
    return;
  }
  if (const std::string owner = try_take(); !owner.empty()) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: node \"{}\" serves this store now", name_, owner));
  }
}

void PostgresLease::renew() {
  if (taken_) {
    return;
  }
  const std::lock_guard lock(renewer_.mutex);
  const std::int64_t before = nanoseconds_now();
  const std::int64_t epoch = epoch_;
  const PostgresRows rows = renewer_.open().run(
      "UPDATE mcnb.heartbeats SET expires = clock_timestamp() + $2 * interval '1 millisecond' "
      "WHERE "
      "name = 'service' AND epoch = $1 AND EXISTS (SELECT 1 FROM mcnb.leases WHERE name = "
      "'service' AND epoch = $1)",
      PostgresValues().number(epoch).number(
          static_cast<std::int64_t>(options_.lease_seconds * 1000)));
  if (epoch != epoch_) {
    return;
  }
  if (rows.changed() == 0) {
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
