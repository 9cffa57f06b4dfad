#include "mcnb/data/prepare/rating_labels.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

struct NodePair {
  std::uint32_t low;
  std::uint32_t high;
};

// Numbers the pairs low < high of `nodes` nodes, in lexical order.
class PairNumbers {
 public:
  explicit PairNumbers(std::uint64_t nodes) : nodes_(nodes) {}

  std::uint64_t count() const { return nodes_ * (nodes_ - 1) / 2; }

  // How many pairs have a lower first node.
  std::uint64_t before(std::uint64_t low) const { return low * (2 * nodes_ - low - 1) / 2; }

  std::uint64_t number(NodePair pair) const {
    return before(pair.low) + (pair.high - pair.low - 1);
  }

  NodePair pair(std::uint64_t number) const {
    std::uint64_t low = 0;
    for (std::uint64_t end = nodes_ - 1; low + 1 < end;) {
      const std::uint64_t middle = low + (end - low) / 2;
      (before(middle) <= number ? low : end) = middle;
    }
    return {static_cast<std::uint32_t>(low),
            static_cast<std::uint32_t>(low + 1 + number - before(low))};
  }

 private:
  std::uint64_t nodes_;
};

// Draws pairs that are not among the taken ones. Both are numbers in ascending order.
std::vector<std::uint64_t> draw_other_pairs(const std::vector<std::uint64_t>& taken,
                                            std::uint64_t population, std::uint64_t most,
                                            std::uint64_t seed) {
  const std::uint64_t others = population - taken.size();
  Rng rng(seed, Stream::kNonLinks);
  std::vector<std::uint64_t> drawn =
      rng.sample_without_replacement(others, static_cast<std::size_t>(std::min(others, most)));
  std::ranges::sort(drawn);
  // Turns the index among the other pairs into the number of a pair: adds the taken pairs before
  // it.
  std::size_t passed = 0;
  for (std::uint64_t& number : drawn) {
    while (passed < taken.size() && taken[passed] - passed <= number) {
      ++passed;
    }
    number += passed;
  }
  return drawn;
}

}  // namespace

RatingLabels label_stars(const ReducedRatings& ratings, const PreparationOptions& preparation) {
  RatingLabels labels;
  labels.rows.reserve(ratings.rows.size());
  for (const ReducedRatings::Row& row : ratings.rows) {
    const auto value = static_cast<double>(row.value);
    const bool liked = value > preparation.liked_above;
    if (preparation.protocol == Protocol::kText) {
      labels.rows.push_back({row.user, row.item, row.value, liked});
    } else if (liked || value < preparation.disliked_below) {
      labels.rows.push_back({row.user, row.item, liked ? 1.0F : -1.0F, liked});
    } else {
      ++labels.dropped;
    }
  }
  return labels;
}

RatingLabels label_links(const ReducedRatings& links, const PreparationOptions& preparation) {
  if (links.users != links.items) {
    throw Error(ErrorKind::kInput, "links: expected the same nodes on both sides");
  }
  const PairNumbers pairs(links.users.size());
  RatingLabels labels;
  labels.mirrored = true;
  std::vector<std::uint64_t> linked;
  std::vector<std::uint64_t> mirrored;
  for (const ReducedRatings::Row& row : links.rows) {
    if (row.user < row.item) {
      labels.rows.push_back({row.user, row.item, 1.0F, true});
      linked.push_back(pairs.number({row.user, row.item}));
    } else if (row.user > row.item) {
      mirrored.push_back(pairs.number({row.item, row.user}));
    } else {
      throw Error(ErrorKind::kInput, "links: expected none from a node to itself");
    }
  }
  std::ranges::sort(linked);
  std::ranges::sort(mirrored);
  if (linked != mirrored || std::ranges::adjacent_find(linked) != linked.end()) {
    throw Error(ErrorKind::kInput, "links: expected each once in both directions");
  }
  const float entry = preparation.protocol == Protocol::kText ? 0.0F : -1.0F;
  for (const std::uint64_t number : draw_other_pairs(linked, linked.empty() ? 0 : pairs.count(),
                                                     2 * linked.size(), preparation.data_seed)) {
    const NodePair pair = pairs.pair(number);
    labels.rows.push_back({pair.low, pair.high, entry, false});
    ++labels.non_links;
  }
  return labels;
}

std::vector<bool> draw_half(std::size_t rows, std::uint64_t seed) {
  Rng rng(seed, Stream::kHeldOut);
  std::vector<bool> half(rows);
  std::size_t wanted = rows / 2;
  for (std::size_t i = 0; i < rows; ++i) {
    if (rng.below(rows - i) < wanted) {
      half[i] = true;
      --wanted;
    }
  }
  check(wanted == 0, "half of the rows are drawn");
  return half;
}

}  // namespace mcnb
