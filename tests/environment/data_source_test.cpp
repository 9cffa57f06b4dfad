#include "mcnb/environment/data_source.h"

#include <atomic>
#include <thread>

#include "tests/data/rating_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::data_source_test {
namespace {

class DataSourceTest : public ::testing::Test {
 protected:
  DataSourceTest() {
    put_file(file, "ratings");
    set.name = "tiny";
    set.files = {file};
    set.read = [this](ThreadPool&) {
      ++reads;
      return random_ratings(60, 50, 0.3, seed);
    };
    samples.name = "dots";
    samples.files = {file};
    samples.read = [this](ThreadPool&) {
      ++reads;
      Samples made;
      made.dimension = 2;
      made.values = {1, 2, 3, 4, 5, 6};
      made.labels = {0, 1, 0};
      made.class_names = {"no", "yes"};
      return made;
    };
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "ratings.csv";
  std::uint64_t seed = 1;
  std::atomic<int> reads{0};
  RatingsSet set;
  SamplesSet samples;
};

TEST_F(DataSourceTest, WorldsOfOneRunShareOneCopy) {
  DataSource source({.threads = 1});
  std::vector<std::shared_ptr<const RecommendationData>> found(8);
  std::vector<std::shared_ptr<const UserPool>> pools(8);
  {
    std::vector<std::jthread> cells;
    for (std::size_t i = 0; i < found.size(); ++i) {
      cells.emplace_back([&, i] {
        RecommendationOptions options;
        options.users = 5 + i % 2;
        const auto world = make_recommendation_world(source, set, options, i);
        EXPECT_LE(world->user_count(), options.users);
        world->next_round();
        found[i] = source.recommendation(set, options);
        pools[i] = source.user_pool(set, options, options.users);
        make_classification_world(source, {samples, samples}, {}, i)->next_round();
      });
    }
  }
  EXPECT_EQ(reads, 2);  // ratings and samples
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_EQ(found[i], found[0]);
    EXPECT_EQ(pools[i], pools[i % 2]);
  }
  EXPECT_NE(pools[0], pools[1]);
}

TEST_F(DataSourceTest, AnotherPreparationIsOtherData) {
  DataSource source({.threads = 1});
  const auto text = source.recommendation(set, {});
  const auto notebook = source.recommendation(set, {.protocol = Protocol::kNotebook});
  EXPECT_EQ(reads, 2);
  EXPECT_NE(text->member_features, notebook->member_features);
  EXPECT_EQ(source.recommendation(set, {}), text);
}

// A failure to keep prepared data is ignored, unless the user asked to keep it.
TEST_F(DataSourceTest, WhatCannotBeKeptIsMadeAnewUnlessItMust) {
  put_file(folder / "file", "in the way");
  DataSettings settings{.prepared = folder / "file" / "below", .threads = 1};
  const auto data = DataSource(settings).recommendation(set, {});
  EXPECT_EQ(*DataSource(settings).recommendation(set, {}), *data);
  EXPECT_EQ(reads, 2);
  settings.must_keep = true;
  expect_error(ErrorKind::kSystem, "below", [&] { DataSource(settings).recommendation(set, {}); });
  settings.prepared = folder / "kept";
  DataSource keeping(settings);
  keeping.user_pool(set, {}, 7);
  ASSERT_EQ(keeping.kept_files().size(), 2U);
  EXPECT_TRUE(std::filesystem::exists(keeping.kept_files()[0]));
}

TEST_F(DataSourceTest, ErrorsNameTheDataSet) {
  DataSource source({.threads = 1});
  RecommendationOptions options;
  options.liked_above = 1000.0;
  expect_error(ErrorKind::kInput, set.name + ": ",
               [&] { make_recommendation_world(source, set, options, 1); });
}

TEST_F(DataSourceTest, ReadingsAreStoppedAndCanBeMadeAgain) {
  DataSource source({.threads = 2});
  const std::function<Ratings(ThreadPool&)> read = set.read;
  set.read = [&](ThreadPool& threads) {
    source.stop(true);  // as another thread does while this one reads
    threads.parallel_for(100, 1, [](std::size_t, std::size_t) {});
    ADD_FAILURE() << "the reading goes on";
    return read(threads);
  };
  expect_error(ErrorKind::kSystem, "stopped", [&] { source.recommendation(set, {}); });
  source.stop(false);
  set.read = read;
  const auto data = source.recommendation(set, {});
  source.stop(true);
  EXPECT_EQ(source.recommendation(set, {}), data) << "what is there is found";
}

TEST_F(DataSourceTest, PreparedDataIsReadInsteadOfItsSource) {
  const DataSettings settings{.prepared = folder / "a" / "b", .threads = 1};
  DataSource first(settings);
  const auto data = first.recommendation(set, {});
  const auto pool = first.user_pool(set, {}, 7);
  EXPECT_EQ(reads, 1);
  DataSource second(settings);
  EXPECT_EQ(*second.user_pool(set, {}, 7), *pool);
  EXPECT_EQ(*second.recommendation(set, {}), *data);
  EXPECT_EQ(reads, 1);

  put_file(file, "Ratings");  // as long as before
  seed = 2;
  DataSource third(settings);
  const auto changed = third.recommendation(set, {});
  EXPECT_EQ(reads, 2);
  EXPECT_NE(*changed, *data);
  EXPECT_NE(*third.user_pool(set, {}, 7), *pool);
  EXPECT_EQ(*DataSource(settings).recommendation(set, {}), *changed);
  EXPECT_EQ(reads, 2);
}

TEST_F(DataSourceTest, DamagedFilesAreMadeAnew) {
  const DataSettings settings{.prepared = folder / "kept", .threads = 1};
  const auto data = DataSource(settings).recommendation(set, {});
  for (const auto& entry : std::filesystem::directory_iterator(folder / "kept")) {
    std::string bytes = file_contents(entry.path());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] + 1);
    put_file(entry.path(), bytes);
  }
  EXPECT_EQ(*DataSource(settings).recommendation(set, {}), *data);
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(*DataSource(settings).recommendation(set, {}), *data);
  EXPECT_EQ(reads, 2);
}

TEST_F(DataSourceTest, AFailedReadIsReportedAndTriedAgain) {
  DataSource source({.threads = 1});
  bool broken = true;
  const auto read = set.read;
  set.read = [&](ThreadPool& threads) {
    if (broken) {
      throw Error(ErrorKind::kInput, "ratings.csv:1: expected 3 columns, found 2");
    }
    return read(threads);
  };
  expect_error(ErrorKind::kInput, "ratings.csv:1",
               [&] { make_recommendation_world(source, set, {}, 1); });
  broken = false;
  RecommendationOptions options;
  options.users = 5;
  make_recommendation_world(source, set, options, 1);
  EXPECT_EQ(reads, 1);
}

TEST_F(DataSourceTest, LinksAreTakenForLinks) {
  DataSource source({.threads = 1});
  set.kind = RatingKind::kLinks;
  set.read = [](ThreadPool&) { return random_links(40, 0.4, 1); };
  RecommendationOptions options;
  options.users = 5;
  const auto world = make_recommendation_world(source, set, options, 1);
  EXPECT_EQ(world->user_count(), 5U);
  options.kind = RatingKind::kLinks;
  EXPECT_GT(source.recommendation(set, options)->counts.non_links, 0U);
}

}  // namespace
}  // namespace mcnb::data_source_test
