#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/data/ratings.h"

namespace mcnb {

// The ratings among the users and items with most ratings.
struct ReducedRatings {
  struct Row {
    std::uint32_t user;  // index in `users`
    std::uint32_t item;  // index in `items`
    float value;

    bool operator==(const Row&) const = default;
  };

  std::vector<std::uint32_t> users;  // numbers in the ratings, ascending
  std::vector<std::uint32_t> items;
  std::vector<Row> rows;  // in the order of the ratings
};

// Keeps the `most_users` users and the `most_items` items with most ratings (all if there are
// fewer); ties go to the lower number. Both are counted over all ratings, so a user can survive the
// reduction even if none of their items does.
ReducedRatings reduce_ratings(const Ratings& ratings, std::size_t most_users,
                              std::size_t most_items);

}  // namespace mcnb
