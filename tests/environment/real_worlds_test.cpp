// Tests with worlds made of the public files, if they are installed.

#include <algorithm>
#include <set>

#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/environment/data_source.h"
#include "tests/data/data_files.h"
#include "tests/data/rating_cases.h"
#include "tests/sanitizers.h"

namespace mcnb::real_worlds_test {
namespace {

using std::filesystem::path;

RatingsSet movielens_small(const path& folder) {
  const path file = folder / "movielens-small/ratings.csv";
  return {"movielens-small", {file}, RatingKind::kStars, [file](ThreadPool& threads) {
            return read_movielens(Input::file(file), threads);
          }};
}

RatingsSet yelp(const path& folder) {
  const path file = folder / "yelp/yelp_academic_dataset_review.json.gz";
  return {"yelp", {file}, RatingKind::kStars, [file](ThreadPool& threads) {
            return read_yelp_reviews(Input::file(file), threads);
          }};
}

RatingsSet facebook(const path& folder) {
  const path file = folder / "facebook/facebook_combined.txt.gz";
  return {"facebook", {file}, RatingKind::kLinks, [file](ThreadPool& threads) {
            return read_edge_list(Input::file(file), threads);
          }};
}

SamplesSet idx_set(const std::string& name, const path& start, const IdxOptions& options = {}) {
  const path images = start.string() + "-images-idx3-ubyte.gz";
  const path labels = start.string() + "-labels-idx1-ubyte.gz";
  return {name, {images, labels}, [=](ThreadPool&) {
            return read_idx(Input::file(images), Input::file(labels), options);
          }};
}

// Regret of random play per round.
double random_regret(Environment& world, int rounds) {
  Rng rng(1, Stream::kTest);
  double regret = 0.0;
  for (int t = 0; t < rounds; ++t) {
    const Round& round = world.next_round();
    double best = 0.0;
    for (const Arm& arm : round.arms) {
      best = std::max(best, world.expected_reward(arm.index));
      EXPECT_NEAR(length(arm.features.values), 1.0, 1e-5);
    }
    const Arm& chosen = round.arms[static_cast<std::size_t>(rng.below(round.arms.size()))];
    regret += best - world.expected_reward(chosen.index);
  }
  return regret / rounds;
}

void expect_random_regret(Environment& world, double expected) {
  constexpr int kRounds = 4000;
  EXPECT_NEAR(random_regret(world, kRounds), expected,
              5 * std::sqrt(expected * (1 - expected) / kRounds));
}

using Choices = std::vector<const char*>;

void expect_played(DataSource& source, const RatingsSet& set, std::uint64_t users,
                   const Choices& protocols, const Choices& features) {
  for (const char* protocol : protocols) {
    for (const char* svd : {"all", "held-out"}) {
      for (const char* look : features) {
        SCOPED_TRACE(set.name + " " + protocol + " " + svd + " " + look);
        if (kThreadSanitized && (protocol != protocols.front() || look != features.front())) {
          continue;
        }
        RecommendationOptions options;
        recommendation_option_table().set_all(
            options, {{"protocol", protocol}, {"svd", svd}, {"features", look}});
        options.users = users;
        const auto world = make_recommendation_world(source, set, options, 1);
        EXPECT_GE(world->user_count(), users - users / 5);
        EXPECT_LE(world->user_count(), users);
        EXPECT_EQ(world->start_data().size(), world->user_count());
        expect_random_regret(*world, 0.9);
      }
    }
  }
}

#define MCNB_NEED_FILES(files)                        \
  for (const std::filesystem::path& needed : files) { \
    if (!std::filesystem::exists(needed)) {           \
      GTEST_SKIP() << "there is no " << needed;       \
    }                                                 \
  }                                                   \
  static_assert(true)

TEST(RealWorlds, MovielensSmall) {
  MCNB_NEED_REAL_DATA(folder);
  DataSource source({});
  const RatingsSet set = movielens_small(folder);
  MCNB_NEED_FILES(set.files);
  const auto data = source.recommendation(set, {});
  EXPECT_EQ(data->member_count(), 610U);
  EXPECT_EQ(data->item_count(), 9724U);
  EXPECT_EQ(data->liked.items.size() + data->not_liked.items.size(), 100836U);
  // Counted in the file by other means: 13,211 ratings of 5 and 8,551 of 4.5; below 2 are 1,370,
  // 2,811 and 1,791.
  EXPECT_EQ(data->liked.items.size(), 21762U);
  const auto notebook = source.recommendation(set, {.protocol = Protocol::kNotebook});
  EXPECT_EQ(notebook->liked.items.size(), 21762U);
  EXPECT_EQ(notebook->not_liked.items.size(), 5972U);
  expect_played(source, set, 50, {"text", "notebook"}, {"item", "item+user"});
  // Up to as many users as the data has.
  const auto pool = source.user_pool(set, {}, 610);
  EXPECT_EQ(pool->found, 610U);
  EXPECT_GT(pool->user_count(), 550U);
}

TEST(RealWorlds, Yelp) {
  if (kThreadSanitized) {
    GTEST_SKIP() << "takes long there, and MovieLens goes the same ways";
  }
  MCNB_NEED_REAL_DATA(folder);
  DataSource source({});
  const RatingsSet set = yelp(folder);
  MCNB_NEED_FILES(set.files);
  const auto data = source.recommendation(set, {});
  EXPECT_EQ(data->counts.kept_users, 10'000U);
  EXPECT_EQ(data->counts.kept_items, 10'000U);
  EXPECT_LT(data->counts.kept_ratings, data->counts.ratings);
  expect_played(source, set, 5, {"text"}, {"item"});
}

TEST(RealWorlds, Facebook) {
  MCNB_NEED_REAL_DATA(folder);
  DataSource source({});
  const RatingsSet set = facebook(folder);
  MCNB_NEED_FILES(set.files);
  const auto data = source.recommendation(set, {.kind = RatingKind::kLinks});
  EXPECT_EQ(data->member_count(), 4039U);
  EXPECT_EQ(data->item_count(), 4039U);
  EXPECT_EQ(data->liked.items.size(), 2U * 88'234U);
  EXPECT_EQ(data->not_liked.items.size(), 4U * 88'234U);
  expect_played(source, set, 10, {"text", "notebook"}, {"auto"});
}

TEST(RealWorlds, MnistAndNotmnist) {
  MCNB_NEED_REAL_DATA(folder);
  DataSource source({});
  const SamplesSet mnist = idx_set("mnist", folder / "mnist/t10k");
  const SamplesSet notmnist = idx_set("notmnist", folder / "notmnist/train");
  MCNB_NEED_FILES(mnist.files);
  MCNB_NEED_FILES(notmnist.files);
  EXPECT_EQ(source.classification(mnist)->samples.size(), 10'000U);
  const auto letters = source.classification(notmnist);
  EXPECT_EQ(letters->samples.size() + letters->zeros_left_out, 18'724U);
  const auto one = make_classification_world(source, {mnist}, {}, 1);
  EXPECT_EQ(one->user_count(), 10U);
  EXPECT_EQ(one->inputs(), 7840U);
  expect_random_regret(*one, 0.9);
  const auto both = make_classification_world(source, {mnist, notmnist}, {}, 1);
  EXPECT_EQ(both->user_count(), 20U);
  EXPECT_EQ(both->inputs(), 7840U);
  expect_random_regret(*both, 0.9);
  std::set<std::size_t> users;
  for (int t = 0; t < 50; ++t) {
    users.insert(index(both->next_round().arms[0].user));
  }
  EXPECT_EQ(users, (std::set<std::size_t>{0, 10}));
}

TEST(RealWorlds, OtherClasses) {
  MCNB_NEED_REAL_DATA(folder);
  DataSource source({});
  const SamplesSet emnist = idx_set("emnist", folder / "emnist/emnist-letters-train",
                                    {.transpose = true, .first_label = 1});
  const path rows = folder / "shuttle/shuttle.tst";
  const SamplesSet shuttle{"shuttle", {rows}, [&](ThreadPool& threads) {
                             return read_shuttle(Input::file(rows), threads);
                           }};
  const path plants = folder / "mushroom/agaricus-lepiota.data";
  const SamplesSet mushroom{"mushroom", {plants}, [&](ThreadPool& threads) {
                              return read_mushroom(Input::file(plants), threads);
                            }};
  for (const auto& [set, classes] :
       {std::pair(emnist, 26), std::pair(shuttle, 7), std::pair(mushroom, 2)}) {
    MCNB_NEED_FILES(set.files);
    const auto world = make_classification_world(source, {set}, {}, 1);
    EXPECT_EQ(world->user_count(), static_cast<std::size_t>(classes));
    EXPECT_EQ(world->inputs(), world->user_count() * source.classification(set)->samples.dimension);
    expect_random_regret(*world, (classes - 1.0) / classes);
  }
}

}  // namespace
}  // namespace mcnb::real_worlds_test
