#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/environment/classification.h"
#include "mcnb/environment/data_settings.h"
#include "mcnb/environment/recommendation.h"

namespace mcnb {

// A data set: its files, and a function that reads them. Prepared data is made again if one of the
// files changes.
struct RatingsSet {
  std::string name;  // "movielens"; part of file names
  std::vector<std::filesystem::path> files;
  RatingKind kind = RatingKind::kStars;
  std::function<Ratings(ThreadPool& threads)> read;
  std::string reading = {};  // how the files are read, if there are several ways
};
struct SamplesSet {
  std::string name;
  std::vector<std::filesystem::path> files;
  std::function<Samples(ThreadPool& threads)> read;
  std::string reading = {};
};

// Reads and prepares each data set once, when it is first asked for, and shares it: environments
// that run at the same time hold one copy. One object per experiment. Many threads may use it; they
// wait for each other while something is read. Ask for the data before a parallel loop starts,
// since inside the loop a preparation has one thread only.
class DataSource {
 public:
  explicit DataSource(DataSettings settings);

  const std::vector<std::filesystem::path>& folders() const { return settings_.folders; }

  // After stop(true), readings and preparations, also those in progress, end with an Error
  // (kSystem) until stop(false); data in memory stays available. Any thread may call it at any
  // time.
  void stop(bool wanted) { stop_ = wanted; }

  // Throw what the readers throw, and what the functions that prepare the data throw.
  std::shared_ptr<const RecommendationData> recommendation(const RatingsSet& set,
                                                           const PreparationOptions& preparation);
  std::shared_ptr<const UserPool> user_pool(const RatingsSet& set,
                                            const PreparationOptions& preparation,
                                            std::uint64_t users);
  std::shared_ptr<const ClassificationData> classification(const SamplesSet& set);

  // The files of prepared data that were read or written so far.
  std::vector<std::filesystem::path> kept_files() const;

 private:
  template <class Data>
  using Shared = std::map<std::string, std::shared_ptr<const Data>>;

  // Returns what is kept under `key`; makes and keeps it first if it is missing. Requires the lock.
  template <class Data, class Make>
  std::shared_ptr<const Data> share(Shared<Data>& kept, const std::string& key, const Make& make);
  std::shared_ptr<const RecommendationData> find_recommendation(
      const RatingsSet& set, const PreparationOptions& preparation);
  std::filesystem::path prepared_file(const RatingsSet& set, const std::string& preparation,
                                      const std::string& ending) const;
  // Returns what `load` reads from the file; if that fails, what `make` returns, after `save`.
  template <class Load, class Make, class Save>
  auto load_or_make(const std::filesystem::path& path, const Load& load, const Make& make,
                    const Save& save) -> decltype(make());

  // A pool for one reading or preparation, so that no idle threads stay afterwards.
  ThreadPool make_threads() const { return ThreadPool(settings_.threads, &stop_); }

  DataSettings settings_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // also held while something is made
  std::vector<std::filesystem::path> kept_files_;
  Shared<RecommendationData> recommendation_;
  Shared<UserPool> pools_;
  Shared<ClassificationData> classification_;
};

// Make environments of data sets, for the table in environments.cpp. The set decides options.kind.
std::unique_ptr<Environment> make_recommendation_world(DataSource& source, const RatingsSet& set,
                                                       RecommendationOptions options,
                                                       std::uint64_t seed);
std::unique_ptr<Environment> make_classification_world(DataSource& source,
                                                       const std::vector<SamplesSet>& sets,
                                                       const ClassificationOptions& options,
                                                       std::uint64_t seed);

}  // namespace mcnb
