#include "mcnb/environment/data_source.h"

#include <fmt/core.h>
#include <mcnb_code.h>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// The key of data in memory: its files, and what is done with them.
std::string key_of(const std::vector<fs::path>& files, const std::string& preparation) {
  std::string key = preparation;
  for (const fs::path& file : files) {
    key += '\n' + fs::absolute(file).lexically_normal().string();
  }
  return key;
}

// Other code may prepare data differently, so it does not use what this code prepared.
std::string by_this_code(const std::string& way) { return way + " code=" MCNB_CODE; }

}  // namespace

DataSource::DataSource(DataSettings settings) : settings_(std::move(settings)) {}

template <class Data, class Make>
std::shared_ptr<const Data> DataSource::share(Shared<Data>& kept, const std::string& key,
                                              const Make& make) {
  if (const auto found = kept.find(key); found != kept.end()) {
    return found->second;
  }
  return kept[key] = std::make_shared<const Data>(make());
}

fs::path DataSource::prepared_file(const RatingsSet& set, const std::string& preparation,
                                   const std::string& ending) const {
  if (settings_.prepared.empty()) {
    if (settings_.must_keep) {
      throw Error(ErrorKind::kSystem, "no folder for prepared data: set HOME or XDG_CACHE_HOME");
    }
    return {};
  }
  const std::string key = key_of(set.files, preparation);
  return settings_.prepared / fmt::format("{}-{:016x}.{}", set.name, hash_bytes(key), ending);
}

template <class Load, class Make, class Save>
auto DataSource::load_or_make(const fs::path& path, const Load& load, const Make& make,
                              const Save& save) -> decltype(make()) {
  std::error_code error;
  if (!path.empty() && fs::is_regular_file(path, error)) {
    try {
      auto data = load(path);
      kept_files_.push_back(path);
      return data;
    } catch (const Error&) {
      // The file has another provenance, is damaged or cannot be read: the data is made again.
    }
  }
  auto data = make();
  if (!path.empty()) {
    try {
      fs::create_directories(path.parent_path(), error);
      save(path, data);
      kept_files_.push_back(path);
    } catch (const Error&) {
      if (settings_.must_keep) {
        throw;
      }
    }
  }
  return data;
}

std::shared_ptr<const RecommendationData> DataSource::find_recommendation(
    const RatingsSet& set, const PreparationOptions& preparation) {
  check(preparation.kind == set.kind, "the preparation is for ratings of this kind");
  const std::string way = preparation_text(preparation) + set.reading;
  const Provenance made_from{set.files, by_this_code(way)};
  return share(recommendation_, key_of(set.files, way), [&] {
    return load_or_make(
        prepared_file(set, way, "ratings"),
        [&](const fs::path& file) { return load_recommendation(file, made_from); },
        [&] {
          ThreadPool threads = make_threads();
          const Ratings ratings = set.read(threads);
          return within(set.name,
                        [&] { return prepare_recommendation(ratings, preparation, threads); });
        },
        [&](const fs::path& file, const RecommendationData& data) {
          save_recommendation(file, data, made_from);
        });
  });
}

std::shared_ptr<const RecommendationData> DataSource::recommendation(
    const RatingsSet& set, const PreparationOptions& preparation) {
  const std::lock_guard lock(mutex_);
  return find_recommendation(set, preparation);
}

std::shared_ptr<const UserPool> DataSource::user_pool(const RatingsSet& set,
                                                      const PreparationOptions& preparation,
                                                      std::uint64_t users) {
  const std::lock_guard lock(mutex_);
  const std::string way =
      fmt::format("{}{} users={}", preparation_text(preparation), set.reading, users);
  const Provenance made_from{set.files, by_this_code(way)};
  return share(pools_, key_of(set.files, way), [&] {
    const std::shared_ptr<const RecommendationData> data = find_recommendation(set, preparation);
    return load_or_make(
        prepared_file(set, way, "users"),
        [&](const fs::path& file) { return load_user_pool(file, *data, made_from); },
        [&] {
          ThreadPool threads = make_threads();
          return within(set.name, [&] {
            return make_user_pool(*data, users, preparation.data_seed, threads);
          });
        },
        [&](const fs::path& file, const UserPool& pool) { save_user_pool(file, pool, made_from); });
  });
}

std::shared_ptr<const ClassificationData> DataSource::classification(const SamplesSet& set) {
  const std::lock_guard lock(mutex_);
  return share(classification_, key_of(set.files, set.name + set.reading), [&] {
    ThreadPool threads = make_threads();
    Samples samples = set.read(threads);
    return within(set.name, [&] { return prepare_classification(std::move(samples)); });
  });
}

std::vector<fs::path> DataSource::kept_files() const {
  const std::lock_guard lock(mutex_);
  return kept_files_;
}

std::unique_ptr<Environment> make_recommendation_world(DataSource& source, const RatingsSet& set,
                                                       RecommendationOptions options,
                                                       std::uint64_t seed) {
  recommendation_option_table().validate(options);
  options.kind = set.kind;
  auto data = source.recommendation(set, options);
  auto pool = source.user_pool(set, options, options.users);
  return std::make_unique<RecommendationWorld>(std::move(data), std::move(pool), options, seed);
}

std::unique_ptr<Environment> make_classification_world(DataSource& source,
                                                       const std::vector<SamplesSet>& sets,
                                                       const ClassificationOptions& options,
                                                       std::uint64_t seed) {
  std::vector<std::shared_ptr<const ClassificationData>> data;
  for (const SamplesSet& set : sets) {
    data.push_back(source.classification(set));
  }
  return std::make_unique<ClassificationWorld>(std::move(data), options, seed);
}

}  // namespace mcnb
