#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/data/prepare/preparation_options.h"
#include "mcnb/data/prepare/reduced_ratings.h"

namespace mcnb {

// Whether one user likes one item.
struct LabelledPair {
  std::uint32_t user;
  std::uint32_t item;
  float entry;  // in the matrix that features come from
  bool liked;

  bool operator==(const LabelledPair&) const = default;
};

// All ratings as labelled pairs.
struct RatingLabels {
  std::vector<LabelledPair> rows;
  bool mirrored = false;        // true: every row stands for (item, user) too
  std::uint64_t dropped = 0;    // ratings between the two bounds, under kNotebook
  std::uint64_t non_links = 0;  // that were drawn
};

// Stars above the bound of the options are liked.
RatingLabels label_stars(const ReducedRatings& ratings, const PreparationOptions& preparation);

// Links are liked. Twice as many pairs of distinct nodes without a link, drawn uniformly (all of
// them if there are fewer), are not liked; in the matrix they are 0, or -1 under kNotebook. Each
// link and each non-link is one mirrored row, so that both directions of a link are in the same
// half of the rows. Throws Error (kInput) if a link lacks its other direction.
RatingLabels label_links(const ReducedRatings& links, const PreparationOptions& preparation);

// Marks a random half of the rows (rounded down).
std::vector<bool> draw_half(std::size_t rows, std::uint64_t seed);

}  // namespace mcnb
