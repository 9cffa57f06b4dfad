#include "mcnb/environment/data_source.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <optional>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Where data is in the memory: by its files and what is done with them.
std::string key_of(const std::vector<fs::path>& files, const std::string& recipe) {
  std::string key = recipe;
  for (const fs::path& file : files) {
    key += '\n' + fs::absolute(file).lexically_normal().string();
  }
  return key;
}

// What a file of prepared data holds, where it is there and as good as new.
template <class Load>
auto load_if_good(const fs::path& path, const Load& load) -> std::optional<decltype(load(path))> {
  if (path.empty() || !fs::exists(path)) {
    return std::nullopt;
  }
  try {
    return load(path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kSystem) {
      throw;
    }
    return std::nullopt;  // made from something else, or damaged: it is made anew
  }
}

}  // namespace

DataSource::DataSource(Settings settings)
    : settings_(std::move(settings)), threads_(settings_.threads) {}

template <class Data, class Make>
std::shared_ptr<const Data> DataSource::share(Shared<Data>& kept, const std::string& key,
                                              const Make& make) {
  if (const auto found = kept.find(key); found != kept.end()) {
    return found->second;
  }
  return kept[key] = std::make_shared<const Data>(make());
}

fs::path DataSource::prepared_file(const RatingsSet& set, const std::string& recipe,
                                   const std::string& ending) const {
  if (settings_.prepared.empty()) {
    return {};
  }
  std::error_code error;
  fs::create_directories(settings_.prepared, error);
  if (error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: {}", settings_.prepared.string(), error.message()));
  }
  const std::string key = key_of(set.files, recipe);
  return settings_.prepared /
         fmt::format("{}-{:016x}.{}", set.name, XXH3_64bits(key.data(), key.size()), ending);
}

std::shared_ptr<const RecommendationData> DataSource::find_recommendation(
    const RatingsSet& set, const RecommendationRecipe& recipe) {
  check(recipe.kind == set.kind, "the recipe is for ratings of this kind");
  const Provenance made_from{set.files, recipe_text(recipe) + set.reading};
  return share(recommendation_, key_of(set.files, made_from.recipe), [&] {
    const fs::path path = prepared_file(set, made_from.recipe, "ratings");
    auto data = load_if_good(
        path, [&](const fs::path& file) { return load_recommendation(file, made_from); });
    if (!data) {
      data = prepare_recommendation(set.read(threads_), recipe, threads_);
      if (!path.empty()) {
        save_recommendation(path, *data, made_from);
      }
    }
    return std::move(*data);
  });
}

std::shared_ptr<const RecommendationData> DataSource::recommendation(
    const RatingsSet& set, const RecommendationRecipe& recipe) {
  const std::lock_guard lock(mutex_);
  return find_recommendation(set, recipe);
}

std::shared_ptr<const UserPool> DataSource::user_pool(const RatingsSet& set,
                                                      const RecommendationRecipe& recipe,
                                                      std::uint64_t users) {
  const std::lock_guard lock(mutex_);
  const Provenance made_from{set.files,
                             fmt::format("{}{} users={}", recipe_text(recipe), set.reading, users)};
  return share(pools_, key_of(set.files, made_from.recipe), [&] {
    const std::shared_ptr<const RecommendationData> data = find_recommendation(set, recipe);
    const fs::path path = prepared_file(set, made_from.recipe, "users");
    auto pool = load_if_good(
        path, [&](const fs::path& file) { return load_user_pool(file, *data, made_from); });
    if (!pool) {
      pool = make_user_pool(*data, users, recipe.data_seed, threads_);
      if (!path.empty()) {
        save_user_pool(path, *pool, made_from);
      }
    }
    return std::move(*pool);
  });
}

std::shared_ptr<const ClassificationData> DataSource::classification(const SamplesSet& set) {
  const std::lock_guard lock(mutex_);
  return share(classification_, key_of(set.files, set.name + set.reading),
               [&] { return prepare_classification(set.read(threads_)); });
}

void DataSource::forget_unused() {
  const std::lock_guard lock(mutex_);
  const auto is_unused = [](const auto& entry) { return entry.second.use_count() == 1; };
  std::erase_if(recommendation_, is_unused);
  std::erase_if(pools_, is_unused);
  std::erase_if(classification_, is_unused);
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
