#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/data/prepare/preparation_options.h"
#include "mcnb/data/prepare/provenance.h"
#include "mcnb/data/ratings.h"

namespace mcnb {

inline constexpr std::size_t kRecommendationFeatures = 10;

// Items by member: member m has the items from items[begin[m]] up to items[begin[m + 1]],
// exclusive.
struct ItemLists {
  std::vector<std::uint64_t> begin;
  std::vector<std::uint32_t> items;

  std::span<const std::uint32_t> of(std::size_t member) const {
    return std::span(items).subspan(static_cast<std::size_t>(begin[member]),
                                    static_cast<std::size_t>(begin[member + 1] - begin[member]));
  }
  std::size_t count(std::size_t member) const {
    return static_cast<std::size_t>(begin[member + 1] - begin[member]);
  }

  bool operator==(const ItemLists&) const = default;
};

// What was read, kept and left out. Links count once, not once per direction.
struct PreparationCounts {
  std::uint64_t ratings = 0;
  std::uint64_t users = 0;
  std::uint64_t items = 0;
  std::uint64_t kept_ratings = 0;  // among the users and items with most ratings
  std::uint64_t kept_users = 0;
  std::uint64_t kept_items = 0;
  std::uint64_t between_bounds = 0;  // ratings that Protocol::kNotebook drops
  std::uint64_t non_links = 0;       // drawn, beside links
  std::uint64_t svd_ratings = 0;     // that the features are made from
  std::uint64_t round_ratings = 0;   // for rounds, if user and item have features
  std::uint64_t users_without_features = 0;
  std::uint64_t items_without_features = 0;
  std::uint64_t pairs_without_features = 0;  // among the ratings for rounds
  std::uint64_t rank = 0;                    // singular vectors that are not zero

  using Stored =
      StoredInOrder<&PreparationCounts::ratings, &PreparationCounts::users,
                    &PreparationCounts::items, &PreparationCounts::kept_ratings,
                    &PreparationCounts::kept_users, &PreparationCounts::kept_items,
                    &PreparationCounts::between_bounds, &PreparationCounts::non_links,
                    &PreparationCounts::svd_ratings, &PreparationCounts::round_ratings,
                    &PreparationCounts::users_without_features,
                    &PreparationCounts::items_without_features,
                    &PreparationCounts::pairs_without_features, &PreparationCounts::rank>;

  bool operator==(const PreparationCounts&) const = default;
};

// Ratings prepared for rounds: features of items and of the users who rated them (members), and
// what each member liked and did not like.
//
// Features are the rows of the leading singular vectors, scaled to unit length. Users and items
// whose row is zero are left out with all their pairs. Members and items get new numbers, in the
// order of their numbers in the ratings.
struct RecommendationData {
  std::vector<float> item_features;         // kRecommendationFeatures numbers an item, unit length
  std::vector<float> member_features;       // likewise
  std::vector<std::uint32_t> item_numbers;  // in the ratings
  std::vector<std::uint32_t> member_numbers;  // in the ratings
  ItemLists liked;
  ItemLists not_liked;
  PreparationCounts counts;

  std::size_t item_count() const { return item_numbers.size(); }
  std::size_t member_count() const { return member_numbers.size(); }
  std::span<const float> item(std::size_t number) const {
    return std::span(item_features)
        .subspan(number * kRecommendationFeatures, kRecommendationFeatures);
  }
  std::span<const float> member(std::size_t number) const {
    return std::span(member_features)
        .subspan(number * kRecommendationFeatures, kRecommendationFeatures);
  }

  bool operator==(const RecommendationData&) const = default;
};

// Equal ratings and options give equal data, bit for bit, with any number of threads. Throws Error:
// kInput if nothing is left to make features or rounds of, kLimit if the singular vectors do not
// converge.
RecommendationData prepare_recommendation(const Ratings& ratings,
                                          const PreparationOptions& preparation,
                                          ThreadPool& threads);

// What was kept and what was left out, in words.
std::string describe(const RecommendationData& data);

inline const StateHeader kRecommendationState{"recommendation-data", 1};

// Saves the data with its provenance. `load` throws Error: kInput if the provenance differs,
// kCorrupt if the file is damaged, kSystem if it does not exist.
void save_recommendation(const std::filesystem::path& path, const RecommendationData& data,
                         const Provenance& made_from);
RecommendationData load_recommendation(const std::filesystem::path& path,
                                       const Provenance& made_from);

}  // namespace mcnb
