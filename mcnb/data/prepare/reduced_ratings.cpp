#include "mcnb/data/prepare/reduced_ratings.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::uint32_t kDropped = ~std::uint32_t{0};

// The `most` numbers that occur most often among `rows`, ascending.
std::vector<std::uint32_t> most_frequent(std::span<const std::uint32_t> rows, std::size_t count,
                                         std::size_t most) {
  std::vector<std::uint64_t> occurrences(count);
  for (const std::uint32_t number : rows) {
    check(number < count, "every number of a rating has a name");
    ++occurrences[number];
  }
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (most < count) {
    const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(numbers.begin(), end, numbers.end(), [&](std::uint32_t a, std::uint32_t b) {
      return occurrences[a] != occurrences[b] ? occurrences[a] > occurrences[b] : a < b;
    });
    numbers.erase(end, numbers.end());
    std::ranges::sort(numbers);
  }
  return numbers;
}

// Maps every number to its index in `kept`, or to kDropped.
std::vector<std::uint32_t> indices_in(std::span<const std::uint32_t> kept, std::size_t count) {
  std::vector<std::uint32_t> indices(count, kDropped);
  for (std::uint32_t i = 0; i < kept.size(); ++i) {
    indices[kept[i]] = i;
  }
  return indices;
}

}  // namespace

ReducedRatings reduce_ratings(const Ratings& ratings, std::size_t most_users,
                              std::size_t most_items) {
  ReducedRatings reduced;
  reduced.users = most_frequent(ratings.users, ratings.user_count(), most_users);
  reduced.items = most_frequent(ratings.items, ratings.item_count(), most_items);
  const std::vector<std::uint32_t> user_indices = indices_in(reduced.users, ratings.user_count());
  const std::vector<std::uint32_t> item_indices = indices_in(reduced.items, ratings.item_count());
  const auto is_kept = [&](std::size_t k) {
    return user_indices[ratings.users[k]] != kDropped && item_indices[ratings.items[k]] != kDropped;
  };
  std::size_t kept = 0;
  for (std::size_t k = 0; k < ratings.size(); ++k) {
    kept += is_kept(k) ? 1U : 0U;
  }
  reduced.rows.reserve(kept);
  for (std::size_t k = 0; k < ratings.size(); ++k) {
    if (is_kept(k)) {
      reduced.rows.push_back(
          {user_indices[ratings.users[k]], item_indices[ratings.items[k]], ratings.values[k]});
    }
  }
  return reduced;
}

}  // namespace mcnb
