// The file of the time series.

#include <sys/stat.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/serve/series/series_book.h"

namespace mcnb {
namespace {

const StateHeader kSeriesState{.kind = "time-series", .version = 1};
constexpr std::uint64_t kMostOfAny = 1U << 20;  // of anything, when a file is read

void read_counts(StateReader& reader, std::span<std::uint32_t> counts) {
  const std::vector<std::uint32_t> values = reader.read_all<std::uint32_t>(counts.size());
  if (values.size() != counts.size()) {
    reader.fail("a bucket has another number of counts");
  }
  std::ranges::copy(values, counts.begin());
}

// Tells a folder from another one that comes into its place.
std::pair<std::uint64_t, std::uint64_t> folder_identity(const std::filesystem::path& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) {
    return {};
  }
  return {found.st_dev, found.st_ino};
}

}  // namespace

void SeriesBook::save() {
  const std::lock_guard one_writer(file_mutex_);
  std::ostringstream bytes;
  {
    const std::lock_guard lock(mutex_);
    must_save_ = false;
    if (file_.empty() || folder_identity(file_.parent_path()) != folder_) {
      return;  // nothing is written into what lies in the place of a folder that was removed
    }
    StateWriter writer(bytes, file_.string(), kSeriesState);
    write(writer);
    writer.finish();
  }
  try {
    FileWriter file(file_, FileAccess::kOwner);
    file.write(bytes.view());
    file.finish();
  } catch (const Error&) {
    const std::lock_guard lock(mutex_);
    must_save_ = true;
    throw;
  }
}

void SeriesBook::write(StateWriter& writer) const {
  const auto write_buckets = [&](const std::deque<Bucket>& buckets) {
    writer.write_count(buckets.size());
    for (const Bucket& bucket : buckets) {
      writer.write<BucketCounts>(bucket);
      writer.write_all(std::span<const std::uint32_t>(bucket.probabilities));
      writer.write_all(bucket.actions);
    }
  };
  writer.write_count(models_.size());
  for (const auto& [id, series] : models_) {
    writer.write(id);
    for (const auto& buckets : series.buckets) {
      write_buckets(buckets);
    }
    writer.write_count(series.names.size());
    for (const std::string& name : series.names) {
      writer.write_string(name);
    }
    writer.write(series.skipped);
    writer.write_count(series.open.size());
    for (const auto& [key, event] : series.open) {
      writer.write(event);
    }
    writer.write_count(series.settings.size());
    for (const SettingsSeen& change : series.settings) {
      writer.write(change.time);
      writer.write_string(change.settings);
    }
  }
  for (const auto& buckets : service_) {
    writer.write_count(buckets.size());
    for (const ServiceBucket& bucket : buckets) {
      writer.write<ServiceCounts>(bucket);
      writer.write_all(std::span<const std::uint32_t>(bucket.latency));
    }
  }
}

void SeriesBook::read(StateReader& reader) {
  const auto read_buckets = [&](std::deque<Bucket>& buckets) {
    const std::uint64_t count = reader.read_count(kMostOfAny);
    for (std::uint64_t i = 0; i < count; ++i) {
      Bucket bucket;
      static_cast<BucketCounts&>(bucket) = reader.read<BucketCounts>();
      read_counts(reader, bucket.probabilities);
      bucket.actions = reader.read_all<ActionShare>(Bucket::kMostActions + 1);
      buckets.push_back(std::move(bucket));
    }
  };
  const std::uint64_t models = reader.read_count(kMostOfAny);
  for (std::uint64_t m = 0; m < models; ++m) {
    const auto id = reader.read<std::uint32_t>();
    Series& series = models_[id];
    for (auto& buckets : series.buckets) {
      read_buckets(buckets);
    }
    series.names.clear();
    const std::uint64_t names = reader.read_count(kMostOfAny);
    for (std::uint64_t i = 0; i < names; ++i) {
      series.names.push_back(reader.read_string(kMostOfAny));
      if (i > 0) {
        series.name_indices.emplace(series.names.back(), static_cast<std::uint32_t>(i));
      }
    }
    series.skipped = reader.read<std::uint64_t>();
    for (std::uint64_t left = reader.read_count(kMostOfAny); left > 0; --left) {
      const auto event = reader.read<OpenEvent>();
      series.open.emplace(event.event, event);
    }
    for (std::uint64_t left = reader.read_count(kMostOfAny); left > 0; --left) {
      const auto time = reader.read<std::int64_t>();
      series.settings.push_back({id, time, reader.read_string(kMostOfAny)});
    }
    for (const auto& buckets : series.buckets) {
      for (const Bucket& bucket : buckets) {
        for (const ActionShare& share : bucket.actions) {
          if (share.name >= series.names.size()) {
            reader.fail("an action without a name");
          }
        }
      }
    }
  }
  for (auto& buckets : service_) {
    for (std::uint64_t left = reader.read_count(kMostOfAny); left > 0; --left) {
      ServiceBucket bucket;
      static_cast<ServiceCounts&>(bucket) = reader.read<ServiceCounts>();
      read_counts(reader, bucket.latency);
      buckets.push_back(bucket);
    }
  }
}

void SeriesBook::load() {
  if (file_.empty()) {
    return;
  }
  std::error_code problem;  // with PostgreSQL nobody else makes the folder
  std::filesystem::create_directories(file_.parent_path(), problem);
  folder_ = folder_identity(file_.parent_path());
  if (!std::filesystem::exists(file_, problem)) {
    return;
  }
  try {
    load_state_file(file_, kSeriesState, [this](StateReader& reader) { read(reader); });
  } catch (const Error& error) {
    warning_ = error.what();
    models_.clear();
    for (auto& buckets : service_) {
      buckets.clear();
    }
  }
}

}  // namespace mcnb
