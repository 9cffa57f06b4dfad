#include "mcnb/serve/store/copy_storage.h"

#include <fmt/core.h>

#include <istream>
#include <map>
#include <string>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_tables.h"

namespace mcnb {
namespace {

// Of one transaction of the copy.
constexpr std::size_t kBatchRows = 1000;
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

void copy_models(LogStore& from, LogStore& to, CopyReport& report) {
  Batch batch;
  for (StoredModel& model : from.models()) {
    batch.models.emplace_back(std::move(model));
    ++report.models;
  }
  batch.erasures = from.erasures();
  if (!batch.empty()) {
    to.commit(batch);
  }
}

void copy_rows(LogStore& from, LogStore& to, std::uint32_t model, CopyReport& report) {
  Batch batch;
  std::size_t bytes = 0;
  const auto put = [&] {
    if (!batch.empty()) {
      to.commit(batch);
    }
    batch = {};
    bytes = 0;
  };
  from.replay(model, 0, [&](const LogRow& row) {
    bytes += row.body.size();
    batch.rows.push_back(row);
    ++report.rows;
    if (batch.rows.size() >= kBatchRows || bytes >= kBatchBytes) {
      put();
    }
  });
  put();
}

void copy_ids(LogStore& from, LogStore& to, CopyReport& report) {
  Batch batch;
  const auto put = [&] {
    if (!batch.ids.empty()) {
      to.commit(batch);
    }
    batch = {};
  };
  from.visit_ids([&](const EventId& id) {
    batch.ids.push_back(id);
    ++report.ids;
    if (batch.ids.size() >= kBatchRows) {
      put();
    }
  });
  put();
}

// Gives the bytes of a snapshot piece by piece.
NextBytes bytes_of(SnapshotSource& source, std::string& piece) {
  return [&source, &piece]() -> std::string_view {
    piece.resize(kPieceBytes);
    source.bytes->read(piece.data(), static_cast<std::streamsize>(piece.size()));
    piece.resize(static_cast<std::size_t>(source.bytes->gcount()));
    return piece;
  };
}

void copy_snapshots(Storage& from, Storage& to, std::uint32_t model, CopyReport& report) {
  std::string piece;
  for (const std::uint64_t position : from.snapshots().positions(model)) {
    SnapshotSource source = from.snapshots().open(model, position);
    to.snapshots().write(model, position, bytes_of(source, piece));
    ++report.snapshots;
  }
}

// A number for everything that a service is made of, by what it is the number of.
std::map<std::string, std::uint64_t> digests_of(Storage& storage) {
  LogStore& log = storage.log();
  std::map<std::string, std::uint64_t> digests;
  digests["the number of the store"] = log.id();
  digests["the highest model"] = log.highest_model_id();
  for (const StoredModel& model : log.models()) {
    const std::string name = fmt::format("model {}", model.id);
    digests[name] = checksum_of_numbers({model.complete ? 1U : 0U, model.last_position},
                                        model.name + '\0' + encode_options(model.options));
    std::uint64_t& rows = digests["the rows of " + name];
    log.replay(model.id, 0, [&](const LogRow& row) {
      rows = checksum_of_numbers({rows, checksum_of(row)});
    });
    for (const std::uint64_t position : storage.snapshots().positions(model.id)) {
      SnapshotSource source = storage.snapshots().open(model.id, position);
      std::string piece;
      const NextBytes next = bytes_of(source, piece);
      std::uint64_t& digest = digests[fmt::format("the snapshot of {} at {}", name, position)];
      while (!next().empty()) {
        digest = hash_bytes(piece, digest);
      }
    }
  }
  // Stores order these differently.
  log.visit_ids([&](const EventId& id) { digests["the ids"] += checksum_of(id); });
  for (const Erasure& erasure : log.erasures()) {
    digests["the erasures"] += checksum_of_numbers({erasure.model, erasure.user, erasure.until});
  }
  return digests;
}

}  // namespace

CopyReport copy_storage(Storage& from, Storage& to) {
  if (!to.log().models().empty() || to.log().highest_model_id() > 0 ||
      !to.snapshots().models().empty()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: it is not empty: copy into a new store", to.log().name()));
  }
  CopyReport report;
  to.log().begin_as_copy(from.log().id(), from.log().highest_model_id());
  copy_models(from.log(), to.log(), report);
  copy_ids(from.log(), to.log(), report);
  for (const StoredModel& model : from.log().models()) {
    copy_rows(from.log(), to.log(), model.id, report);
    copy_snapshots(from, to, model.id, report);
  }
  to.log().acknowledge();
  const auto wanted = digests_of(from);
  const auto found = digests_of(to);
  for (const auto& [what, digest] : wanted) {
    const auto own = found.find(what);
    if (own == found.end() || own->second != digest) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: the copy differs in {}: remove it and copy again",
                              to.log().name(), what));
    }
  }
  return report;
}

}  // namespace mcnb
