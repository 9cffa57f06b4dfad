#include "mcnb/serve/store/postgres/snapshots.h"

#include <fmt/core.h>

#include <algorithm>
#include <istream>
#include <streambuf>

#include "mcnb/base/check.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/store/log_checksums.h"

namespace mcnb {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// Positions are stored as signed numbers.
std::int64_t stored_position(std::uint64_t position) {
  return to_signed(std::min(position, ~std::uint64_t{0} >> 1));
}

// Reads the pieces of one snapshot, each when it is needed.
class PieceBuffer : public std::streambuf {
 public:
  PieceBuffer(PostgresLogStore& log, std::int64_t snapshot) : log_(log), snapshot_(snapshot) {}

 protected:
  int_type underflow() override {
    piece_ = log_.reading([&](PostgresConnection& connection) {
      const PostgresRows rows = connection.run(
          "SELECT body FROM mcnb.snapshot_pieces WHERE snapshot = $1 AND number = $2",
          PostgresValues().number(snapshot_).number(next_));
      return rows.empty() ? std::string() : rows.text(0, 0);
    });
    ++next_;
    setg(piece_.data(), piece_.data(), piece_.data() + piece_.size());
    return piece_.empty() ? traits_type::eof() : traits_type::to_int_type(piece_.front());
  }

 private:
  PostgresLogStore& log_;
  std::int64_t snapshot_;
  std::int64_t next_ = 0;
  std::string piece_;
};

class PieceStream : public std::istream {
 public:
  PieceStream(PostgresLogStore& log, std::int64_t snapshot)
      : std::istream(nullptr), buffer_(log, snapshot) {
    rdbuf(&buffer_);
    // A lost connection must not look like the end of the snapshot.
    exceptions(std::ios::badbit);
  }

 private:
  PieceBuffer buffer_;
};

}  // namespace

PostgresSnapshots::PostgresSnapshots(const std::string& url, PostgresLogStore& log,
                                     PostgresLease* lease)
    : log_(log), lease_(lease), session_(url, true) {}

std::vector<std::uint32_t> PostgresSnapshots::models() {
  return log_.reading([](PostgresConnection& connection) {
    const PostgresRows rows =
        connection.run("SELECT DISTINCT model FROM mcnb.snapshots ORDER BY model");
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.push_back(static_cast<std::uint32_t>(rows.number(i, 0)));
    }
    return all;
  });
}

std::vector<std::uint64_t> PostgresSnapshots::positions(std::uint32_t model) {
  return log_.reading([&](PostgresConnection& connection) {
    const PostgresRows rows = connection.run(
        "SELECT position FROM mcnb.snapshots WHERE model = $1 AND NOT aside ORDER BY position DESC",
        PostgresValues().number(model));
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.push_back(to_unsigned(rows.number(i, 0)));
    }
    return all;
  });
}

PostgresSnapshots::Written PostgresSnapshots::write_pieces(PostgresConnection& connection,
                                                           std::int64_t id, const NextBytes& next) {
  Written written;
  std::string piece;
  const auto put = [&] {
    connection.run("INSERT INTO mcnb.snapshot_pieces VALUES($1, $2, $3)",
                   PostgresValues().number(id).number(written.pieces).bytes(piece));
    ++written.pieces;
    written.bytes += static_cast<std::int64_t>(piece.size());
    written.digest = hash_bytes(piece, written.digest);
    piece.clear();
  };
  for (std::string_view bytes = next(); !bytes.empty(); bytes = next()) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kPieceBytes - piece.size());
      piece += bytes.substr(0, count);
      bytes.remove_prefix(count);
      if (piece.size() == kPieceBytes) {
        put();
      }
    }
  }
  if (!piece.empty()) {
    put();
  }
  return written;
}

void PostgresSnapshots::write(std::uint32_t model, std::uint64_t position, const NextBytes& next) {
  check(lease_ != nullptr, "a store that is only read gets no snapshots");
  lease_->require();
  const std::lock_guard lock(session_.mutex);
  const std::int64_t epoch = lease_->epoch();
  session_.call(lease_->application());
  PostgresConnection& connection = session_.open();
  const PostgresValues where = PostgresValues().number(model).number(stored_position(position));
  try {
    connection.run("BEGIN");
    const std::int64_t id =
        connection
            .run(
                "INSERT INTO mcnb.snapshots(model, position, aside, bytes, pieces, digest) "
                "VALUES($1, $2, true, 0, 0, 0) RETURNING id",
                where)
            .number(0, 0);
    const Written written = write_pieces(connection, id, next);
    const PostgresValues digest =
        PostgresValues(where).number(to_signed(written.digest)).number(written.bytes);
    // What is there already either has the same bytes, or is damaged.
    connection.send(
        "DELETE FROM mcnb.snapshots WHERE model = $1 AND position = $2 AND NOT aside AND digest = "
        "$3 AND bytes = $4",
        digest);
    connection.send(
        "UPDATE mcnb.snapshots SET aside = true WHERE model = $1 AND position = $2 AND NOT aside",
        where);
    connection.send(
        "UPDATE mcnb.snapshots SET aside = false, digest = $2, bytes = $3, pieces = $4 WHERE id = "
        "$1",
        PostgresValues()
            .number(id)
            .number(to_signed(written.digest))
            .number(written.bytes)
            .number(written.pieces));
    connection.send(
        "DELETE FROM mcnb.snapshots WHERE model = $1 AND NOT aside AND id NOT IN (SELECT id FROM "
        "mcnb.snapshots WHERE model = $1 AND NOT aside ORDER BY position DESC LIMIT 2)",
        PostgresValues().number(model));
    connection.finish();
    session_.end_commit(epoch);
  } catch (...) {
    connection.drop();  // the transaction goes with the session
    throw;
  }
}

SnapshotSource PostgresSnapshots::open(std::uint32_t model, std::uint64_t position) {
  const std::string name =
      fmt::format("{}: the snapshot of model {} at {}", log_.name(), model, position);
  const std::int64_t id = log_.reading([&](PostgresConnection& connection) {
    const PostgresRows rows = connection.run(
        "SELECT id FROM mcnb.snapshots WHERE model = $1 AND position = $2 AND NOT aside",
        PostgresValues().number(model).number(stored_position(position)));
    return rows.empty() ? -1 : rows.number(0, 0);
  });
  if (id < 0) {
    throw Error(ErrorKind::kSystem, name + " is not there");
  }
  return {name, std::make_unique<PieceStream>(log_, id)};
}

void PostgresSnapshots::change(const std::string& sql, std::uint32_t model,
                               std::uint64_t position) {
  lease_->require();
  const std::lock_guard lock(session_.mutex);
  session_.call(lease_->application());
  session_.commit(lease_->epoch(), [&](PostgresConnection& connection) {
    connection.send(sql, PostgresValues().number(model).number(stored_position(position)));
  });
}

void PostgresSnapshots::set_aside(std::uint32_t model, std::uint64_t position) {
  change("UPDATE mcnb.snapshots SET aside = true WHERE model = $1 AND position = $2", model,
         position);
}

void PostgresSnapshots::remove_before(std::uint32_t model, std::uint64_t position) {
  change("DELETE FROM mcnb.snapshots WHERE model = $1 AND (aside OR position < $2)", model,
         position);
}

}  // namespace mcnb
