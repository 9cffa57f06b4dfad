#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/prepare/provenance.h"
#include "mcnb/data/prepare/recommendation_recipe.h"
#include "mcnb/data/ratings.h"

namespace mcnb {

inline constexpr std::size_t kRecommendationFeatures = 10;

// Items by member: those of member m are items[begin[m]] up to, not including, items[begin[m + 1]].
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

// What was there, and what was left out on the way. Links count once, not once per direction.
struct PreparationCounts {
  std::uint64_t ratings = 0;
  std::uint64_t users = 0;
  std::uint64_t items = 0;
  std::uint64_t kept_ratings = 0;  // among the users and items with most ratings
  std::uint64_t kept_users = 0;
  std::uint64_t kept_items = 0;
  std::uint64_t between_bounds = 0;  // ratings that Protocol::kNotebook drops
  std::uint64_t non_links = 0;       // drawn, beside links
  std::uint64_t svd_ratings = 0;     // that the features have seen
  std::uint64_t round_ratings = 0;  // that rounds may come from, as far as both sides have features
  std::uint64_t users_without_features = 0;
  std::uint64_t items_without_features = 0;
  std::uint64_t pairs_without_features = 0;  // of those for rounds
  std::uint64_t rank = 0;                    // singular vectors that are not zero

  bool operator==(const PreparationCounts&) const = default;
};

// Ratings made ready for rounds: what items and those who rated them (members) look like, and what
// each member liked and did not.
//
// Features are the rows of the leading singular vectors, at unit length. Who has no rating in the
// matrix, or only such as the leading vectors have no part in, has no features and is left out,
// with all pairs. Members and items are numbered anew, in the order of the ratings' numbers.
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

// The same ratings and recipe give the same data, bit for bit, with any number of threads. Throws
// Error: kInput where nothing is left to make features or rounds of, kLimit where the singular
// vectors do not converge.
RecommendationData prepare_recommendation(const Ratings& ratings,
                                          const RecommendationRecipe& recipe, ThreadPool& threads);

// What was kept and what was left out, in words.
std::string describe(const RecommendationData& data);

inline const StateHeader kRecommendationState{"recommendation-data", 1};

// A file that tells what it was made from. `load` throws Error: kInput where that is not what is
// asked for, kCorrupt where the file is damaged, kSystem where there is none.
void save_recommendation(const std::filesystem::path& path, const RecommendationData& data,
                         const Provenance& made_from);
RecommendationData load_recommendation(const std::filesystem::path& path,
                                       const Provenance& made_from);

}  // namespace mcnb
