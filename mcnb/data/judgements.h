#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/data/reduction.h"

namespace mcnb {

// How ratings become rewards and the matrix that features come from.
enum class Protocol {
  kText,      // above 4 of 5 is liked, all the rest is not; the matrix holds the ratings
  kNotebook,  // above 4 is liked, below 2 is not, the rest is dropped; the matrix holds +1 and -1
};

// What the ratings are.
enum class RatingKind {
  kStars,
  kLinks,  // of an undirected graph, every one in both directions (read_edge_list)
};

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

struct JudgementRules {
  Protocol protocol = Protocol::kText;
  double liked_above = 4.0;
  double disliked_below = 2.0;
  std::uint64_t seed = 1;
};

Judgements judge_stars(const ReducedRatings& ratings, const JudgementRules& rules);

// Links are liked. Twice as many pairs of different nodes that are not linked (all of them, where
// there are fewer), drawn uniformly, are not; in the matrix they are 0, under kNotebook -1. Each
// link and each non-link is one row, mirrored: a half of the rows then never holds one direction
// of a link whose other direction is in the other half. Throws Error (kInput) where a link lacks
// its other direction.
Judgements judge_links(const ReducedRatings& links, const JudgementRules& rules);

// Marks exactly half of the rows (the lesser half of an odd number), at random.
std::vector<bool> draw_half(std::size_t rows, std::uint64_t seed);

}  // namespace mcnb
