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
#include "mcnb/environment/recommendation.h"

namespace mcnb {

// A data set as files and the way to read them. `files` are what the data is known by: prepared
// data is made anew when one of them changes.
struct RatingsSet {
  std::string name;  // "movielens"; no part of it is more than a file's name
  std::vector<std::filesystem::path> files;
  RatingKind kind = RatingKind::kStars;
  std::function<Ratings(ThreadPool& threads)> read;
  std::string reading = {};  // in what way the files are read, where there are several
};
struct SamplesSet {
  std::string name;
  std::vector<std::filesystem::path> files;
  std::function<Samples(ThreadPool& threads)> read;
  std::string reading = {};
};

// Reads and prepares data for environments, each data set once, whoever asks for it first, and
// shares it: environments that play at the same time hold one copy. One object per run; may be
// used from many threads, which wait for each other while something is read. A loop over cells
// should not be the first to ask: inside a parallel loop a preparation has one thread.
class DataSource {
 public:
  struct Settings {
    std::vector<std::filesystem::path> folders;  // where data sets are, the first one first
    // Where prepared data is kept between runs, made if need be; empty: nowhere. Files that do not
    // match their sources, or are damaged, are made anew.
    std::filesystem::path prepared;
    // Whether it is an error where prepared data cannot be kept; else it is made anew next time.
    bool must_keep = false;
    std::size_t threads = 0;  // to read and prepare with; 0: one per processor
  };
  explicit DataSource(Settings settings);

  const std::vector<std::filesystem::path>& folders() const { return settings_.folders; }

  // Until stop(false), readings and preparations end with an Error (kSystem), those in progress,
  // too; what is prepared already is found all the same. For any thread, at any time.
  void stop(bool wanted) { stop_ = wanted; }

  // Throw what the reader throws, and as the functions do that prepare the data.
  std::shared_ptr<const RecommendationData> recommendation(const RatingsSet& set,
                                                           const RecommendationRecipe& recipe);
  std::shared_ptr<const UserPool> user_pool(const RatingsSet& set,
                                            const RecommendationRecipe& recipe,
                                            std::uint64_t users);
  std::shared_ptr<const ClassificationData> classification(const SamplesSet& set);

  // Prepared data that was read or written so far.
  std::vector<std::filesystem::path> kept_files() const;

 private:
  template <class Data>
  using Shared = std::map<std::string, std::shared_ptr<const Data>>;

  // What is kept under `key`, or else made and kept. Requires the lock.
  template <class Data, class Make>
  std::shared_ptr<const Data> share(Shared<Data>& kept, const std::string& key, const Make& make);
  std::shared_ptr<const RecommendationData> find_recommendation(const RatingsSet& set,
                                                                const RecommendationRecipe& recipe);
  std::filesystem::path prepared_file(const RatingsSet& set, const std::string& recipe,
                                      const std::string& ending) const;
  // What `load` finds in the file; else what `make` gives, for which `save` is called.
  template <class Load, class Make, class Save>
  auto load_or_make(const std::filesystem::path& path, const Load& load, const Make& make,
                    const Save& save) -> decltype(make());

  // Lives only while something is read or prepared: afterwards there are no idle threads.
  ThreadPool make_threads() const { return ThreadPool(settings_.threads, &stop_); }

  Settings settings_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // held while something is made, too
  std::vector<std::filesystem::path> kept_files_;
  Shared<RecommendationData> recommendation_;
  Shared<UserPool> pools_;
  Shared<ClassificationData> classification_;
};

// Environments of named data sets: what one line of a registry calls. The options' kind is that of
// the set.
std::unique_ptr<Environment> make_recommendation_world(DataSource& source, const RatingsSet& set,
                                                       RecommendationOptions options,
                                                       std::uint64_t seed);
std::unique_ptr<Environment> make_classification_world(DataSource& source,
                                                       const std::vector<SamplesSet>& sets,
                                                       const ClassificationOptions& options,
                                                       std::uint64_t seed);

}  // namespace mcnb
