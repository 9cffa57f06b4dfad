#include "mcnb/data/prepare/recommendation_data.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "tests/data/rating_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::recommendation_data_test {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using PairSet = std::set<std::pair<std::uint32_t, std::uint32_t>>;

RecommendationData prepare(const Ratings& ratings, const PreparationOptions& preparation = {}) {
  ThreadPool threads(1);
  return prepare_recommendation(ratings, preparation, threads);
}

// The pairs of a list, in the numbers of the ratings.
PairSet pairs_of(const RecommendationData& data, const ItemLists& lists) {
  PairSet pairs;
  for (std::size_t member = 0; member < data.member_count(); ++member) {
    for (const std::uint32_t item : lists.of(member)) {
      EXPECT_TRUE(pairs.insert({data.member_numbers[member], data.item_numbers[item]}).second);
    }
  }
  return pairs;
}

// All features are those of the dense method on a matrix of all users and items.
void expect_features(const RecommendationData& data, const MatrixXd& matrix, bool notebook) {
  const DenseFeatures dense = dense_features(matrix, notebook ? 9 : 10);
  const auto expect_row = [&](std::span<const float> row, const Eigen::VectorXd& expected) {
    const double scale = notebook ? std::sqrt(0.5) : 1.0;
    for (Index j = 0; j < expected.size(); ++j) {
      ASSERT_NEAR(row[static_cast<std::size_t>(j)], expected[j] * scale, 1e-5);
    }
    if (notebook) {
      EXPECT_NEAR(row[9], scale, 1e-7);
    }
    EXPECT_NEAR(length(row), 1.0, 1e-6);
  };
  for (std::size_t i = 0; i < data.member_count(); ++i) {
    expect_row(data.member(i), dense.users.row(data.member_numbers[i]));
  }
  for (std::size_t i = 0; i < data.item_count(); ++i) {
    expect_row(data.item(i), dense.items.row(data.item_numbers[i]));
  }
}

TEST(RecommendationData, UnderTextFeaturesComeFromTheRatingsAndAllPairsAreKept) {
  for (const std::size_t users : {40, 90}) {  // dense method, Lanczos
    const Ratings ratings = random_ratings(users, 80, 0.3, 1);
    const RecommendationData data = prepare(ratings);
    ASSERT_EQ(data.member_count(), users);
    ASSERT_EQ(data.item_count(), 80U);
    MatrixXd matrix = MatrixXd::Zero(static_cast<Index>(users), 80);
    PairSet liked;
    PairSet not_liked;
    for (std::size_t k = 0; k < ratings.size(); ++k) {
      matrix(ratings.users[k], ratings.items[k]) = ratings.values[k];
      (ratings.values[k] > 4.0F ? liked : not_liked).insert({ratings.users[k], ratings.items[k]});
    }
    expect_features(data, matrix, false);
    EXPECT_EQ(pairs_of(data, data.liked), liked);
    EXPECT_EQ(pairs_of(data, data.not_liked), not_liked);
    EXPECT_EQ(data.counts.ratings, ratings.size());
    EXPECT_EQ(data.counts.kept_ratings, ratings.size());
    EXPECT_EQ(data.counts.svd_ratings, ratings.size());
    EXPECT_EQ(data.counts.round_ratings, ratings.size());
    EXPECT_EQ(data.counts.rank, 10U);
  }
}

TEST(RecommendationData, UnderNotebookFeaturesComeFromLikedAndDisliked) {
  const Ratings ratings = random_ratings(90, 80, 0.5, 2);
  const RecommendationData data = prepare(ratings, {.protocol = Protocol::kNotebook});
  MatrixXd matrix = MatrixXd::Zero(90, 80);
  PairSet liked;
  PairSet not_liked;
  std::uint64_t between = 0;
  for (std::size_t k = 0; k < ratings.size(); ++k) {
    if (ratings.values[k] > 4.0F) {
      matrix(ratings.users[k], ratings.items[k]) = 1.0;
      liked.insert({ratings.users[k], ratings.items[k]});
    } else if (ratings.values[k] < 2.0F) {
      matrix(ratings.users[k], ratings.items[k]) = -1.0;
      not_liked.insert({ratings.users[k], ratings.items[k]});
    } else {
      ++between;
    }
  }
  expect_features(data, matrix, true);
  EXPECT_EQ(pairs_of(data, data.liked), liked);
  EXPECT_EQ(pairs_of(data, data.not_liked), not_liked);
  EXPECT_EQ(data.counts.between_bounds, between);
}

// The features must be those of exactly the ratings that no round can show.
TEST(RecommendationData, HeldOutFeaturesHaveSeenNoRatingOfTheRounds) {
  const Ratings ratings = random_ratings(90, 80, 0.5, 3);
  for (const Protocol protocol : {Protocol::kText, Protocol::kNotebook}) {
    const bool notebook = protocol == Protocol::kNotebook;
    const RecommendationData data =
        prepare(ratings, {.protocol = protocol, .svd = SvdSource::kHeldOut});
    ASSERT_EQ(data.counts.pairs_without_features, 0U);  // so every pair of the rounds is listed
    const PairSet liked = pairs_of(data, data.liked);
    const PairSet not_liked = pairs_of(data, data.not_liked);
    MatrixXd matrix = MatrixXd::Zero(90, 80);
    std::size_t others = 0;
    for (std::size_t k = 0; k < ratings.size(); ++k) {
      const float value = ratings.values[k];
      const std::pair pair(ratings.users[k], ratings.items[k]);
      const bool high = value > 4.0F;
      if (notebook && !high && value >= 2.0F) {
        continue;
      }
      if (!(high ? liked : not_liked).contains(pair)) {
        matrix(pair.first, pair.second) =
            notebook ? (high ? 1.0 : -1.0) : static_cast<double>(value);
        ++others;
      }
    }
    EXPECT_EQ(others, data.counts.svd_ratings);
    const std::size_t shown = liked.size() + not_liked.size();
    EXPECT_TRUE(shown == others || shown == others + 1) << shown << " and " << others;
    expect_features(data, matrix, notebook);
    const RecommendationData other =
        prepare(ratings, {.protocol = protocol, .svd = SvdSource::kHeldOut, .data_seed = 2});
    EXPECT_NE(pairs_of(other, other.liked), liked);
  }
}

// Neither direction of a link that rounds show is in the matrix.
TEST(RecommendationData, HeldOutLinksAreHeldOutInBothDirections) {
  const Ratings links = random_links(90, 0.5, 4);
  for (const Protocol protocol : {Protocol::kText, Protocol::kNotebook}) {
    const RecommendationData data = prepare(
        links, {.kind = RatingKind::kLinks, .protocol = protocol, .svd = SvdSource::kHeldOut});
    ASSERT_EQ(data.counts.pairs_without_features, 0U);
    const PairSet liked = pairs_of(data, data.liked);
    for (const auto& [user, item] : liked) {
      EXPECT_TRUE(liked.contains({item, user}));
    }
    if (protocol == Protocol::kText) {
      MatrixXd matrix = MatrixXd::Zero(90, 90);
      for (std::size_t k = 0; k < links.size(); ++k) {
        if (!liked.contains({links.users[k], links.items[k]})) {
          matrix(links.users[k], links.items[k]) = 1.0;
        }
      }
      EXPECT_EQ(matrix.sum(), 2.0 * static_cast<double>(data.counts.svd_ratings));
      expect_features(data, matrix, false);
    }
    EXPECT_EQ(data.counts.ratings, links.size() / 2);
    EXPECT_EQ(data.counts.non_links, links.size());
    EXPECT_NEAR(static_cast<double>(data.not_liked.items.size()) /
                    static_cast<double>(data.liked.items.size()),
                2.0, 0.25);
  }
}

TEST(RecommendationData, LinksAndNonLinksShowInBothDirections) {
  const Ratings links = random_links(90, 0.4, 5);
  const RecommendationData data = prepare(links, {.kind = RatingKind::kLinks});
  MatrixXd matrix = MatrixXd::Zero(90, 90);
  PairSet given;
  for (std::size_t k = 0; k < links.size(); ++k) {
    matrix(links.users[k], links.items[k]) = 1.0;
    given.insert({links.users[k], links.items[k]});
  }
  expect_features(data, matrix, false);
  EXPECT_EQ(pairs_of(data, data.liked), given);
  const PairSet others = pairs_of(data, data.not_liked);
  EXPECT_EQ(others.size(), 2 * given.size());
  for (const auto& [user, item] : others) {
    EXPECT_FALSE(given.contains({user, item}));
    EXPECT_TRUE(others.contains({item, user}));
  }
}

TEST(RecommendationData, OnlyThoseWithMostRatingsTakePart) {
  const Ratings ratings = random_ratings(60, 50, 0.4, 6);
  const RecommendationData data = prepare(ratings, {.most_users = 20, .most_items = 15});
  EXPECT_EQ(data.counts.kept_users, 20U);
  EXPECT_EQ(data.counts.kept_items, 15U);
  const std::set<std::uint32_t> users(data.member_numbers.begin(), data.member_numbers.end());
  const std::set<std::uint32_t> items(data.item_numbers.begin(), data.item_numbers.end());
  std::uint64_t kept = 0;
  for (std::size_t k = 0; k < ratings.size(); ++k) {
    kept += users.contains(ratings.users[k]) && items.contains(ratings.items[k]) ? 1U : 0U;
  }
  EXPECT_EQ(data.counts.kept_ratings, kept);
  EXPECT_EQ(data.liked.items.size() + data.not_liked.items.size(), kept);
}

// User 90 rated only item 80, and nobody else did: no leading vector has a part in them. User 91
// rated nothing.
TEST(RecommendationData, WhoHasNoFeaturesIsLeftOutAndCounted) {
  for (const std::size_t users : {30, 90}) {  // dense method, Lanczos
    Ratings ratings = random_ratings(users, 80, 0.5, 7);
    const auto lonely = static_cast<std::uint32_t>(users);
    ratings.users.push_back(lonely);
    ratings.items.push_back(80);
    ratings.values.push_back(0.5F);
    ratings.user_names.add("lonely");
    ratings.user_names.add("silent");
    ratings.item_names.add("odd");
    const RecommendationData data = prepare(ratings);
    EXPECT_EQ(data.member_count(), users);
    EXPECT_EQ(data.item_count(), 80U);
    EXPECT_EQ(std::ranges::count(data.member_numbers, lonely), 0);
    EXPECT_EQ(data.counts.users_without_features, 2U);
    EXPECT_EQ(data.counts.items_without_features, 1U);
    EXPECT_EQ(data.counts.pairs_without_features, 1U);
    EXPECT_EQ(data.counts.round_ratings, ratings.size() - 1);
    EXPECT_NE(describe(data).find("left out: 2 users and 1 items without features, with 1 pairs"),
              std::string::npos)
        << describe(data);
  }
}

TEST(RecommendationData, RefusesRatingsThatGiveNoRounds) {
  expect_error(ErrorKind::kInput, "no ratings", [] { prepare(make_ratings({}, 3, 3)); });
  const std::vector<Rated> middle = {{0, 0, 3}, {1, 1, 3}};
  expect_error(ErrorKind::kInput, "no ratings to make features of: 0 of 2",
               [&] { prepare(make_ratings(middle, 2, 2), {.protocol = Protocol::kNotebook}); });
  expect_error(ErrorKind::kInput, "0 pairs are liked and 2 are not",
               [&] { prepare(make_ratings(middle, 2, 2)); });
}

TEST(RecommendationData, ThreadsChangeNoBit) {
  const Ratings ratings = random_ratings(300, 250, 0.1, 8);
  const RecommendationData alone = prepare(ratings, {.svd = SvdSource::kHeldOut});
  for (const std::size_t count : {2, 8}) {
    ThreadPool threads(count);
    EXPECT_EQ(prepare_recommendation(ratings, {.svd = SvdSource::kHeldOut}, threads), alone);
  }
}

class PreparedFile : public ::testing::Test {
 protected:
  PreparedFile() {
    put_file(source, "1,2,3");
    save_recommendation(file, data, {{source}, "a preparation"});
  }

  // Sets the time of the source far enough back to differ from the present.
  void age(std::chrono::hours hours) {
    std::filesystem::last_write_time(source, std::filesystem::file_time_type::clock::now() - hours);
  }

  TemporaryFolder folder;
  std::filesystem::path source = folder / "ratings.csv";
  std::filesystem::path file = folder / "x.ratings";
  RecommendationData data = prepare(random_ratings(30, 20, 0.4, 9));
};

TEST_F(PreparedFile, GivesBackEveryBit) {
  EXPECT_EQ(load_recommendation(file, {{source}, "a preparation"}), data);
  age(std::chrono::hours(5));  // a new time alone is no change
  EXPECT_EQ(load_recommendation(file, {{source}, "a preparation"}), data);
}

TEST_F(PreparedFile, IsRefusedWhereItsSourceOrPreparationIsAnother) {
  expect_error(ErrorKind::kInput, "made with \"a preparation\", expected \"another\"", [&] {
    load_recommendation(file, {{source}, "another"});
  });
  expect_error(ErrorKind::kInput, "made from 1 files, expected 2", [&] {
    load_recommendation(file, {{source, source}, "a preparation"});
  });
  put_file(folder / "reviews.csv", "1,2,3");
  expect_error(ErrorKind::kInput, "made from ratings.csv, expected reviews.csv", [&] {
    load_recommendation(file, {{folder / "reviews.csv"}, "a preparation"});
  });
  put_file(source, "1,2,4");
  expect_error(ErrorKind::kInput, "ratings.csv has changed since", [&] {
    load_recommendation(file, {{source}, "a preparation"});
  });
  put_file(source, "1,2,3,4");
  expect_error(ErrorKind::kInput, "ratings.csv has changed since", [&] {
    load_recommendation(file, {{source}, "a preparation"});
  });
  std::filesystem::remove(source);
  expect_error(ErrorKind::kSystem, "ratings.csv", [&] {
    load_recommendation(file, {{source}, "a preparation"});
  });
}

TEST_F(PreparedFile, ASourceWithAnOldTimeIsNotReadAgainButOneWithANewTimeIs) {
  age(std::chrono::hours(5));
  const auto old_time = std::filesystem::last_write_time(source);
  save_recommendation(file, data, {{source}, "a preparation"});
  put_file(source, "4,2,3");
  expect_error(ErrorKind::kInput, "has changed since", [&] {
    load_recommendation(file, {{source}, "a preparation"});
  });
  std::filesystem::last_write_time(source, old_time);  // as if it had never been touched
  EXPECT_EQ(load_recommendation(file, {{source}, "a preparation"}), data);
}

// File times are coarse: two changes within a short time may get the same time.
TEST_F(PreparedFile, ASourceThatWasNewWhenTheFileWasMadeIsReadAgain) {
  const auto time = std::filesystem::last_write_time(source);
  put_file(source, "4,2,3");
  std::filesystem::last_write_time(source, time);
  expect_error(ErrorKind::kInput, "has changed since", [&] {
    load_recommendation(file, {{source}, "a preparation"});
  });
}

TEST_F(PreparedFile, IsRefusedWhereItIsDamaged) {
  const std::string good = file_contents(file);
  for (std::size_t i = 0; i < good.size(); i += 97) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    put_file(file, bad);
    expect_error(ErrorKind::kCorrupt, "x.ratings", [&] {
      load_recommendation(file, {{source}, "a preparation"});
    });
  }
  put_file(file, std::string_view(good).substr(0, good.size() / 2));
  expect_error(ErrorKind::kCorrupt, "truncated", [&] {
    load_recommendation(file, {{source}, "a preparation"});
  });
}

TEST_F(PreparedFile, IsRefusedWhereItsPartsDoNotFit) {
  const auto expect_refused = [&](const std::string& part, const RecommendationData& bad) {
    save_recommendation(file, bad, {{source}, "a preparation"});
    expect_error(ErrorKind::kCorrupt, part, [&] {
      load_recommendation(file, {{source}, "a preparation"});
    });
  };
  RecommendationData bad = data;
  bad.liked.items[3] = static_cast<std::uint32_t>(data.item_count());
  expect_refused("an item has a number that is too large", bad);
  bad = data;
  bad.not_liked.begin[4] = 1'000'000;
  expect_refused("one list for every member", bad);
  bad = data;
  bad.not_liked.begin.pop_back();
  expect_refused("one list for every member", bad);
  bad = data;
  bad.item_features[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused("a feature", bad);
  bad = data;
  bad.member_features.pop_back();
  expect_refused("ten features", bad);
  bad = data;
  bad.liked.items.clear();
  bad.liked.begin.assign(bad.liked.begin.size(), 0);
  expect_refused("both kinds", bad);
}

}  // namespace
}  // namespace mcnb::recommendation_data_test
