#include "mcnb/data/prepare/user_pool.h"

#include <algorithm>
#include <set>

#include "tests/data/rating_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::user_pool_test {
namespace {

RecommendationData some_data() {
  ThreadPool threads(1);
  return prepare_recommendation(random_ratings(80, 60, 0.25, 1), {}, threads);
}

UserPool make_pool(const RecommendationData& data, std::uint64_t users, std::uint64_t seed = 1) {
  ThreadPool threads(1);
  return make_user_pool(data, users, seed, threads);
}

double squared_distance(std::span<const double> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    sum += (a[j] - static_cast<double>(b[j])) * (a[j] - static_cast<double>(b[j]));
  }
  return sum;
}

TEST(UserPool, EveryMemberBelongsToTheUserWhoseMembersItIsMostLike) {
  const RecommendationData data = some_data();
  const UserPool pool = make_pool(data, 7);
  EXPECT_EQ(pool.user_count(), 7U);
  EXPECT_EQ(std::set(pool.members.begin(), pool.members.end()).size(), data.member_count());
  EXPECT_EQ(pool.members.size(), data.member_count());
  std::vector<std::vector<double>> means;
  for (std::size_t user = 0; user < 7; ++user) {
    const auto members = pool.of(user);
    EXPECT_TRUE(std::ranges::is_sorted(members));
    std::vector<double> mean(kRecommendationFeatures);
    for (const std::uint32_t member : members) {
      for (std::size_t j = 0; j < mean.size(); ++j) {
        mean[j] +=
            static_cast<double>(data.member(member)[j]) / static_cast<double>(members.size());
      }
    }
    double squares = 0.0;
    for (const double value : mean) {
      squares += value * value;
    }
    const auto features = std::span(pool.features).subspan(user * 10, 10);
    EXPECT_NEAR(length(features), 1.0, 1e-6);
    for (std::size_t j = 0; j < mean.size(); ++j) {
      EXPECT_NEAR(features[j], mean[j] / std::sqrt(squares), 1e-5);
    }
    means.push_back(std::move(mean));
  }
  for (std::size_t user = 0; user < 7; ++user) {
    for (const std::uint32_t member : pool.of(user)) {
      for (const std::vector<double>& other : means) {
        EXPECT_LE(squared_distance(means[user], data.member(member)),
                  squared_distance(other, data.member(member)) + 1e-6);
      }
    }
  }
  EXPECT_EQ(describe(pool), "7 users with 80 members");
}

// With as many users as members every member is alone.
TEST(UserPool, UsersWithoutBothKindsOfPairsAreLeftOutAndCounted) {
  RecommendationData data = some_data();
  ItemLists& liked = data.liked;
  const std::size_t first = liked.count(0);
  ASSERT_GT(first, 0U);
  liked.items.erase(liked.items.begin(), liked.items.begin() + static_cast<std::ptrdiff_t>(first));
  for (std::size_t member = 1; member < liked.begin.size(); ++member) {
    liked.begin[member] -= first;
  }
  std::size_t left_out = 0;
  std::uint64_t pairs = 0;
  for (std::size_t member = 0; member < data.member_count(); ++member) {
    if (liked.count(member) == 0 || data.not_liked.count(member) == 0) {
      ++left_out;
      pairs += liked.count(member) + data.not_liked.count(member);
    }
  }
  const UserPool pool = make_pool(data, data.member_count());
  EXPECT_EQ(pool.found, data.member_count());
  EXPECT_EQ(pool.user_count(), data.member_count() - left_out);
  EXPECT_EQ(pool.members_left_out, left_out);
  EXPECT_EQ(pool.pairs_left_out, pairs);
  EXPECT_EQ(std::ranges::count(pool.members, 0U), 0);
  EXPECT_EQ(pool.features.size(), pool.user_count() * kRecommendationFeatures);
  EXPECT_NE(describe(pool).find("left out: "), std::string::npos);
  UserPool rest = pool;
  rest.members_left_out = rest.members.size();
  EXPECT_EQ(describe(rest).find("CAUTION"), std::string::npos);
  ++rest.members_left_out;
  EXPECT_NE(describe(rest).find("CAUTION: most members are left out"), std::string::npos);
}

TEST(UserPool, ThreadsChangeNoBitButTheSeedDoes) {
  const RecommendationData data = some_data();
  const UserPool alone = make_pool(data, 9);
  for (const std::size_t count : {2, 8}) {
    ThreadPool threads(count);
    EXPECT_EQ(make_user_pool(data, 9, 1, threads), alone);
  }
  EXPECT_NE(make_pool(data, 9, 2).members, alone.members);
}

TEST(UserPool, RefusesMoreUsersThanThereAre) {
  const RecommendationData data = some_data();
  expect_error(ErrorKind::kUsage, "option users: expected 1 to 80", [&] { make_pool(data, 81); });
  expect_error(ErrorKind::kUsage, "option users", [&] { make_pool(data, 0); });
  RecommendationData sad = data;
  sad.liked.items.clear();
  sad.liked.begin.assign(sad.liked.begin.size(), 0);
  expect_error(ErrorKind::kInput, "none of 5 users", [&] { make_pool(sad, 5); });
}

TEST(UserPool, AFileGivesBackEveryBitOrIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path source = folder / "ratings.csv";
  const std::filesystem::path file = folder / "x.users";
  put_file(source, "1,2,3");
  const RecommendationData data = some_data();
  const UserPool pool = make_pool(data, 6);
  save_user_pool(file, pool, {{source}, "a preparation"});
  EXPECT_EQ(load_user_pool(file, data, {{source}, "a preparation"}), pool);
  expect_error(ErrorKind::kInput, "expected \"another\"", [&] {
    load_user_pool(file, data, {{source}, "another"});
  });
  const auto expect_refused = [&](const std::string& part, const UserPool& bad) {
    save_user_pool(file, bad, {{source}, "a preparation"});
    expect_error(ErrorKind::kCorrupt, part, [&] {
      load_user_pool(file, data, {{source}, "a preparation"});
    });
  };
  UserPool bad = pool;
  bad.members[3] = static_cast<std::uint32_t>(data.member_count());
  expect_refused("a member has a number that is too large", bad);
  bad = pool;
  bad.begin[2] = bad.begin[1];
  expect_refused("lacks pairs of one kind", bad);
  bad = pool;
  bad.begin[2] = 1'000'000;
  expect_refused("lacks pairs of one kind", bad);
  bad = pool;
  bad.features.pop_back();
  expect_refused("do not match the users", bad);
  bad = pool;
  bad.features[0] = 2.0F;
  expect_refused("a feature", bad);
  bad = pool;
  bad.begin = {0};
  expect_refused("do not match the users", bad);
}

}  // namespace
}  // namespace mcnb::user_pool_test
