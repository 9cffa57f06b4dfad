#include "mcnb/data/prepare/rating_labels.h"

#include <algorithm>
#include <map>
#include <set>

#include "mcnb/data/prepare/reduced_ratings.h"
#include "tests/data/rating_cases.h"

namespace mcnb::rating_labels_test {
namespace {

using PairSet = std::set<std::pair<std::uint32_t, std::uint32_t>>;

ReducedRatings reduce_all(const Ratings& ratings) {
  return reduce_ratings(ratings, ratings.user_count(), ratings.item_count());
}

// The numbers that occur most often, by sorting them all.
std::vector<std::uint32_t> brute_force_most(const std::vector<std::uint32_t>& rows,
                                            std::size_t count, std::size_t most) {
  std::vector<std::pair<std::ptrdiff_t, std::uint32_t>> order;
  for (std::uint32_t number = 0; number < count; ++number) {
    order.emplace_back(-std::ranges::count(rows, number), number);
  }
  std::ranges::sort(order);
  std::vector<std::uint32_t> kept;
  for (std::size_t i = 0; i < std::min(most, count); ++i) {
    kept.push_back(order[i].second);
  }
  std::ranges::sort(kept);
  return kept;
}

TEST(Reduction, KeepsThoseWithMostRatingsAndOfEqualsTheLowerNumbers) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Ratings ratings = random_ratings(25, 18, 0.2, seed);
    Rng rng(seed, Stream::kTest, 1);
    const std::size_t users = 1 + rng.below(30);
    const std::size_t items = 1 + rng.below(30);
    const ReducedRatings reduced = reduce_ratings(ratings, users, items);
    EXPECT_EQ(reduced.users, brute_force_most(ratings.users, 25, users));
    EXPECT_EQ(reduced.items, brute_force_most(ratings.items, 18, items));
    std::vector<ReducedRatings::Row> expected;
    for (std::size_t k = 0; k < ratings.size(); ++k) {
      const auto user = std::ranges::find(reduced.users, ratings.users[k]);
      const auto item = std::ranges::find(reduced.items, ratings.items[k]);
      if (user != reduced.users.end() && item != reduced.items.end()) {
        expected.push_back({static_cast<std::uint32_t>(user - reduced.users.begin()),
                            static_cast<std::uint32_t>(item - reduced.items.begin()),
                            ratings.values[k]});
      }
    }
    EXPECT_EQ(reduced.rows, expected);
  }
}

TEST(RatingLabels, UnderTextAboveFourIsLikedAndAllTheRestIsNot) {
  const std::vector<Rated> rows = {{0, 0, 5.0F}, {0, 1, 4.5F}, {1, 0, 4.0F},
                                   {1, 2, 2.0F}, {1, 1, 1.5F}, {2, 1, 0.5F}};
  const RatingLabels labels = label_stars(reduce_all(make_ratings(rows, 3, 3)), {});
  EXPECT_EQ(labels.rows, (std::vector<LabelledPair>{{0, 0, 5.0F, true},
                                                    {0, 1, 4.5F, true},
                                                    {1, 0, 4.0F, false},
                                                    {1, 2, 2.0F, false},
                                                    {1, 1, 1.5F, false},
                                                    {2, 1, 0.5F, false}}));
  EXPECT_FALSE(labels.mirrored);
  EXPECT_EQ(labels.dropped, 0U);
}

TEST(RatingLabels, UnderNotebookTheMiddleIsDropped) {
  const std::vector<Rated> rows = {{0, 0, 5.0F}, {0, 1, 4.5F}, {1, 0, 4.0F},
                                   {1, 2, 2.0F}, {1, 1, 1.5F}, {2, 1, 0.5F}};
  PreparationOptions preparation{.protocol = Protocol::kNotebook};
  const RatingLabels labels = label_stars(reduce_all(make_ratings(rows, 3, 3)), preparation);
  EXPECT_EQ(
      labels.rows,
      (std::vector<LabelledPair>{
          {0, 0, 1.0F, true}, {0, 1, 1.0F, true}, {1, 1, -1.0F, false}, {2, 1, -1.0F, false}}));
  EXPECT_EQ(labels.dropped, 2U);
  preparation.liked_above = 1.5;
  preparation.disliked_below = 0.6;
  EXPECT_EQ(label_stars(reduce_all(make_ratings(rows, 3, 3)), preparation).rows.size(), 5U);
}

PairSet pairs_of(const RatingLabels& labels, bool liked) {
  PairSet pairs;
  for (const LabelledPair& pair : labels.rows) {
    if (pair.liked == liked) {
      EXPECT_LT(pair.user, pair.item);
      EXPECT_TRUE(pairs.insert({pair.user, pair.item}).second) << "twice";
    }
  }
  return pairs;
}

TEST(RatingLabels, LinksAreLikedAndTwiceAsManyOtherPairsAreNot) {
  for (const Protocol protocol : {Protocol::kText, Protocol::kNotebook}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Ratings links = random_links(20, 0.3, seed);
      const RatingLabels labels =
          label_links(reduce_all(links), {.kind = RatingKind::kLinks, .protocol = protocol});
      EXPECT_TRUE(labels.mirrored);
      PairSet given;
      for (std::size_t k = 0; k < links.size(); ++k) {
        given.insert(std::minmax(links.users[k], links.items[k]));
      }
      EXPECT_EQ(pairs_of(labels, true), given);
      const PairSet others = pairs_of(labels, false);
      EXPECT_EQ(others.size(), 2 * given.size());
      EXPECT_EQ(labels.non_links, others.size());
      for (const auto& pair : others) {
        EXPECT_FALSE(given.contains(pair));
        EXPECT_LT(pair.second, 20U);
      }
      for (const LabelledPair& pair : labels.rows) {
        EXPECT_EQ(pair.entry, pair.liked ? 1.0F : (protocol == Protocol::kText ? 0.0F : -1.0F));
      }
    }
  }
}

TEST(RatingLabels, EveryOtherPairIsDrawnEquallyOften) {
  const std::vector<Rated> rows = {{0, 3, 1}, {3, 0, 1}, {1, 2, 1}, {2, 1, 1}};
  const ReducedRatings links = reduce_all(make_ratings(rows, 6, 6));
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> times;
  constexpr int kSeeds = 3000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const auto& pair :
         pairs_of(label_links(links, {.kind = RatingKind::kLinks, .data_seed = seed}), false)) {
      ++times[pair];
    }
  }
  EXPECT_EQ(times.size(), 13U);  // of 15 pairs two are links
  for (const auto& [pair, count] : times) {
    EXPECT_NEAR(count, kSeeds * 4.0 / 13.0, 5 * std::sqrt(kSeeds * 4.0 / 13.0));
  }
}

TEST(RatingLabels, WhereThereAreFewOtherPairsAllAreTaken) {
  std::vector<Rated> rows;
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = 0; b < 4; ++b) {
      if (a != b && a + b != 3) {
        rows.push_back({a, b, 1.0F});
      }
    }
  }
  const RatingLabels labels =
      label_links(reduce_all(make_ratings(rows, 4, 4)), {.kind = RatingKind::kLinks});
  EXPECT_EQ(pairs_of(labels, false), (PairSet{{0, 3}, {1, 2}}));
}

TEST(RatingLabels, RefusesLinksThatAreNoGraph) {
  const auto label = [](const std::vector<Rated>& rows) {
    label_links(reduce_all(make_ratings(rows, 4, 4)), {.kind = RatingKind::kLinks});
  };
  expect_error(ErrorKind::kInput, "both directions", [&] { label({{0, 1, 1}}); });
  expect_error(ErrorKind::kInput, "both directions", [&] { label({{1, 0, 1}, {2, 3, 1}}); });
  expect_error(ErrorKind::kInput, "to itself", [&] { label({{1, 1, 1}}); });
  expect_error(ErrorKind::kInput, "same nodes", [] {
    label_links(reduce_all(make_ratings(std::vector<Rated>{{0, 1, 1}, {1, 0, 1}}, 4, 3)), {});
  });
}

TEST(RatingLabels, AHalfIsExactlyOneAndEveryRowIsAsLikely) {
  for (const std::size_t rows : {0, 1, 2, 7, 100}) {
    EXPECT_EQ(std::ranges::count(draw_half(rows, 3), true), static_cast<std::ptrdiff_t>(rows / 2));
  }
  std::vector<int> times(11);
  constexpr int kSeeds = 4000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<bool> half = draw_half(times.size(), seed);
    for (std::size_t i = 0; i < times.size(); ++i) {
      times[i] += half[i] ? 1 : 0;
    }
  }
  for (const int count : times) {
    EXPECT_NEAR(count, kSeeds * 5.0 / 11.0, 5 * std::sqrt(kSeeds * 5.0 / 11.0));
  }
}

}  // namespace
}  // namespace mcnb::rating_labels_test
