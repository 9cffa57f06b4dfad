#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/data/prepare/recommendation_recipe.h"
#include "mcnb/data/prepare/reduction.h"

namespace mcnb {

// What one user thinks of one item.
struct Judgement {
  std::uint32_t user;
  std::uint32_t item;
  float entry;  // of the matrix
  bool liked;

  bool operator==(const Judgement&) const = default;
};

struct Judgements {
  std::vector<Judgement> rows;
  bool mirrored = false;      // then every row speaks for (item, user) as well as for (user, item)
  std::uint64_t dropped = 0;  // ratings between the two bounds, under kNotebook
  std::uint64_t non_links = 0;  // that were drawn
};

Judgements judge_stars(const ReducedRatings& ratings, const RecommendationRecipe& recipe);

// Links are liked. Twice as many pairs of different nodes that are not linked (all of them, where
// there are fewer), drawn uniformly, are not; in the matrix they are 0, under kNotebook -1. Each
// link and each non-link is one row, mirrored: a half of the rows then never holds one direction
// of a link whose other direction is in the other half. Throws Error (kInput) where a link lacks
// its other direction.
Judgements judge_links(const ReducedRatings& links, const RecommendationRecipe& recipe);

// Marks exactly half of the rows (the lesser half of an odd number), at random.
std::vector<bool> draw_half(std::size_t rows, std::uint64_t seed);

}  // namespace mcnb
