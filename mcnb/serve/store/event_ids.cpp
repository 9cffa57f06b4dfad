#include "mcnb/serve/store/event_ids.h"

#include <fmt/core.h>

#include <map>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/log_checksums.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kIdRowBytes = 48;  // about

// How many ids a bucket has, and the sum of their checksums modulo 2^64.
struct BucketDigest {
  std::uint64_t rows = 0;
  std::uint64_t sum = 0;
  bool operator==(const BucketDigest&) const = default;
};
using Buckets = std::map<std::uint32_t, BucketDigest>;

std::uint32_t bucket_of(std::uint64_t key) { return static_cast<std::uint32_t>(key >> 56); }

std::uint64_t checksum_of_bucket(std::uint32_t bucket, const BucketDigest& digest) {
  return checksum_of_numbers({bucket, digest.rows, digest.sum});
}

[[noreturn]] void damaged_ids(const Database& database, const std::string& what) {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: {}: restore the folder from a backup", database.name(), what));
}

// A row as it is stored, sound or not.
struct StoredId {
  EventId id;
  std::uint64_t checksum = 0;
};

// Reads the columns model, key, position, time, user, checksum.
StoredId stored_id(const Statement& statement) {
  return {{.model = static_cast<std::uint32_t>(statement.number(0)),
           .key = to_unsigned(statement.number(1)),
           .position = to_unsigned(statement.number(2)),
           .time = statement.number(3),
           .user = to_unsigned(statement.number(4))},
          to_unsigned(statement.number(5))};
}

void require_sound(const Database& database, const StoredId& stored) {
  if (stored.checksum != checksum_of(stored.id)) {
    damaged_ids(database,
                fmt::format("model {}: the checksum of the id of the event at row {} does "
                            "not match",
                            stored.id.model, stored.id.position));
  }
}

constexpr const char* kFind =
    "SELECT model, key, position, time, user, checksum FROM event_ids "
    "WHERE model = ?1 AND key = ?2";

// Does not verify the row: damaged ones can be replaced and erased, too.
std::optional<StoredId> find_stored(Statement& statement, std::uint32_t model, std::uint64_t key) {
  statement.reset();  // a run that threw is still open
  std::optional<StoredId> found;
  if (statement.bind(1, model).bind(2, to_signed(key)).next()) {
    found = stored_id(statement);
  }
  statement.reset();
  return found;
}

std::vector<EventId> all_of(Statement& statement) {
  std::vector<EventId> ids;
  while (statement.next()) {
    ids.push_back(stored_id(statement).id);
  }
  return ids;
}

constexpr const char* kReadBucket =
    "SELECT row_count, digest, checksum FROM event_id_digests WHERE bucket = ?1";

// `statement`: of kReadBucket.
BucketDigest read_bucket(Database& database, Statement& statement, std::uint32_t bucket) {
  statement.reset();
  if (!statement.bind(1, bucket).next()) {
    return {};
  }
  const BucketDigest digest{to_unsigned(statement.number(0)), to_unsigned(statement.number(1))};
  const std::uint64_t checksum = to_unsigned(statement.number(2));
  statement.reset();
  if (checksum != checksum_of_bucket(bucket, digest)) {
    damaged_ids(database, fmt::format("ids of events: the digest of bucket {} is damaged", bucket));
  }
  return digest;
}

void write_buckets(Database& database, const Buckets& changes) {
  Statement put(database, "INSERT OR REPLACE INTO event_id_digests VALUES(?1, ?2, ?3, ?4)");
  Statement read(database, kReadBucket);
  for (const auto& [bucket, change] : changes) {
    BucketDigest digest = read_bucket(database, read, bucket);
    digest.rows += change.rows;
    digest.sum += change.sum;
    put.bind(1, bucket)
        .bind(2, to_signed(digest.rows))
        .bind(3, to_signed(digest.sum))
        .bind(4, to_signed(checksum_of_bucket(bucket, digest)))
        .finish();
  }
}

void subtract(Buckets& buckets, const StoredId& stored) {
  BucketDigest& change = buckets[bucket_of(stored.id.key)];
  --change.rows;  // modulo 2^64, like the sum
  change.sum -= stored.checksum;
}

}  // namespace

void put_ids(Database& database, std::span<const EventId> ids) {
  if (ids.empty()) {
    return;
  }
  Statement find(database, kFind);
  Statement put(database, "INSERT OR REPLACE INTO event_ids VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
  Buckets buckets;
  for (const EventId& id : ids) {
    if (const auto old = find_stored(find, id.model, id.key)) {
      subtract(buckets, *old);
    }
    put.bind(1, id.model)
        .bind(2, to_signed(id.key))
        .bind(3, to_signed(id.position))
        .bind(4, id.time)
        .bind(5, to_signed(id.user))
        .bind(6, to_signed(checksum_of(id)))
        .finish();
    BucketDigest& change = buckets[bucket_of(id.key)];
    ++change.rows;
    change.sum += checksum_of(id);
  }
  write_buckets(database, buckets);
}

void erase_ids(Database& database, std::span<const EventId> ids) {
  Statement find(database, kFind);
  Statement erase(database, "DELETE FROM event_ids WHERE model = ?1 AND key = ?2");
  Buckets buckets;
  for (const EventId& id : ids) {
    // An id that was used again since it was read belongs to a younger event.
    const std::optional<StoredId> found = find_stored(find, id.model, id.key);
    if (found && found->id.position == id.position) {
      subtract(buckets, *found);
      erase.bind(1, id.model).bind(2, to_signed(id.key)).finish();
    }
  }
  write_buckets(database, buckets);
}

IdFinder::IdFinder(Database& database) : database_(database), statement_(database, kFind) {}

std::optional<EventId> IdFinder::find(std::uint32_t model, std::uint64_t key) {
  const std::optional<StoredId> found = find_stored(statement_, model, key);
  if (!found) {
    return std::nullopt;
  }
  require_sound(database_, *found);
  return found->id;
}

std::vector<EventId> ids_after(Database& database, const EventId& after, std::size_t limit) {
  Statement statement(database,
                      "SELECT model, key, position, time, user, checksum FROM event_ids "
                      "WHERE (model, key) > (?1, ?2) ORDER BY model, key LIMIT ?3");
  statement.bind(1, after.model).bind(2, to_signed(after.key));
  statement.bind(3, static_cast<std::int64_t>(limit));
  return all_of(statement);
}

std::vector<EventId> ids_of_user(Database& database, const Erasure& erasure) {
  Statement statement(database,
                      "SELECT model, key, position, time, user, checksum FROM event_ids "
                      "WHERE model = ?1 AND user = ?2 AND position <= ?3");
  statement.bind(1, erasure.model).bind(2, to_signed(erasure.user));
  statement.bind(3, to_signed(erasure.until));
  return all_of(statement);
}

std::uint64_t verify_ids(Database& database, std::uint32_t bucket, std::vector<Damage>& found) {
  std::uint64_t bytes = 0;
  try {
    Statement read(database, kReadBucket);
    const BucketDigest written = read_bucket(database, read, bucket);
    // Keys are stored as signed numbers, in which the buckets are runs, too.
    const std::int64_t first = to_signed(std::uint64_t{bucket} << 56);
    const std::int64_t last = to_signed((std::uint64_t{bucket} << 56) | ((1ULL << 56) - 1));
    BucketDigest digest;
    Statement models(database,
                     "SELECT model FROM event_ids WHERE model > ?1 ORDER BY model LIMIT 1");
    Statement ids(database,
                  "SELECT model, key, position, time, user, checksum FROM event_ids "
                  "WHERE model = ?1 AND key BETWEEN ?2 AND ?3 ORDER BY key");
    std::int64_t model = -1;
    while (models.bind(1, model).next()) {
      model = models.number(0);
      models.reset();
      ids.bind(1, model).bind(2, first).bind(3, last);
      while (ids.next()) {
        const StoredId stored = stored_id(ids);
        require_sound(database, stored);
        ++digest.rows;
        digest.sum += stored.checksum;
        bytes += kIdRowBytes;
      }
    }
    if (digest != written) {
      found.push_back({0, 0, 0,
                       fmt::format("{}: ids of events: bucket {} has {} where {} were written",
                                   database.name(), bucket, digest.rows, written.rows)});
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      throw;
    }
    found.push_back({0, 0, 0, error.what()});
  }
  return bytes;
}

}  // namespace mcnb
