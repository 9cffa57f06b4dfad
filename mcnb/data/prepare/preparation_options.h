#pragma once

#include <cstdint>
#include <string>

namespace mcnb {

// The kind of ratings.
enum class RatingKind {
  kStars,
  kLinks,  // of an undirected graph, each in both directions (read_edge_list)
};

// How ratings become rewards and the matrix that features come from.
enum class Protocol {
  kText,      // above 4 of 5 is liked, the rest is not; the matrix holds the ratings
  kNotebook,  // above 4 is liked, below 2 is not, the rest is dropped; the matrix holds +1 and -1
};

// Which ratings the features are made from.
enum class SvdSource {
  kAll,
  kHeldOut,  // one random half of them; rounds come from the other half
};

// How ratings become the data of a recommendation environment.
struct PreparationOptions {
  RatingKind kind = RatingKind::kStars;
  Protocol protocol = Protocol::kText;
  SvdSource svd = SvdSource::kAll;
  double liked_above = 4.0;
  double disliked_below = 2.0;
  std::uint64_t most_users = 10'000;
  std::uint64_t most_items = 10'000;
  // Seed of everything that is drawn while data is prepared. Rounds use the seed of their run, so
  // runs with different seeds share their data.
  std::uint64_t data_seed = 1;
};

// "kind=stars protocol=text ...": equal for equal options only.
std::string preparation_text(const PreparationOptions& preparation);

}  // namespace mcnb
