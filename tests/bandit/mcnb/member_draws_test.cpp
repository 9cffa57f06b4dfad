#include "mcnb/bandit/mcnb/member_draws.h"

#include <gtest/gtest.h>

#include <map>

#include "mcnb/base/random.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::member_draws_test {
namespace {

constexpr std::uint64_t kSeed = 11;

// Histories of twelve users that overlap; every fourth user has none.
Histories some_histories() {
  Histories histories(kSeed, 0);
  histories.add_users(12);
  Rng rng(kSeed, Stream::kTest);
  for (int event = 0; event < 40; ++event) {
    std::vector<UserId> users;
    for (std::uint32_t user = 0; user < 12; ++user) {
      if (user % 4 != 3 && rng.chance(0.3)) {
        users.push_back(UserId{user});
      }
    }
    const std::vector<float> x = plain::draw(rng, 3);
    histories.add(users, {{x}, static_cast<float>(event)});
  }
  return histories;
}

// The draws of one step, straight from the addresses of the random numbers.
std::map<std::uint32_t, double> plain_step(const McnbOptions& options, const Histories& histories,
                                           std::span<const UserId> cluster, RoundId round,
                                           std::uint32_t step_and_arm) {
  std::vector<UserId> participants;
  for (const UserId member : cluster) {
    if (histories.size(member) > 0) {
      participants.push_back(member);
    }
  }
  if (options.meta_samples > 0 && options.meta_samples < participants.size()) {
    std::vector<UserId> few;
    for (const std::uint64_t i :
         Rng(kSeed, Stream::kMetaMembers, index(round), step_and_arm)
             .sample_without_replacement(participants.size(), options.meta_samples)) {
      few.push_back(participants[i]);
    }
    participants = few;
  }
  std::map<std::uint32_t, double> weights;
  const RngFamily family(Rng(kSeed, Stream::kMetaDraw, index(round), step_and_arm));
  for (const UserId member : participants) {
    const std::vector<std::uint32_t>& history = histories.events(member);
    const double share = 1.0 / static_cast<double>(participants.size());
    if (options.meta_draw == MetaDraw::kOne) {
      weights[history[family.member(index(member)).below(history.size())]] += share;
    } else {
      for (const std::uint32_t event : history) {
        weights[event] += share / static_cast<double>(history.size());
      }
    }
  }
  return weights;
}

TEST(MemberDraws, AreThoseOfTheirAddresses) {
  const Histories histories = some_histories();
  const std::vector<std::vector<UserId>> clusters{
      {UserId{0}},
      {UserId{1}, UserId{3}, UserId{4}, UserId{9}},
      {UserId{0}, UserId{1}, UserId{2}, UserId{3}, UserId{4}, UserId{5}, UserId{6}, UserId{7},
       UserId{8}, UserId{10}, UserId{11}}};
  for (const MetaDraw meta_draw : {MetaDraw::kOne, MetaDraw::kAll}) {
    for (const std::uint64_t meta_samples : {0U, 2U, 100U}) {
      McnbOptions options;
      options.meta_draw = meta_draw;
      options.meta_samples = meta_samples;
      options.meta_steps = 3;
      MemberDraws draws(options, kSeed);  // one object for all: what it keeps must not matter
      for (std::uint64_t round = 0; round < 20; ++round) {
        for (const std::vector<UserId>& cluster : clusters) {
          const ArmIndex arm{static_cast<std::uint32_t>(round % 3)};
          const auto steps = draws.draw(histories, cluster, RoundId{round}, arm);
          ASSERT_EQ(steps.size(), 3U);
          for (std::uint32_t step = 0; step < 3; ++step) {
            const std::map<std::uint32_t, double> expected =
                plain_step(options, histories, cluster, RoundId{round},
                           step << 16 | static_cast<std::uint32_t>(arm));
            ASSERT_EQ(steps[step].size(), expected.size());
            for (const Draw& draw : steps[step]) {
              const auto found = expected.find(static_cast<std::uint32_t>(draw.event));
              ASSERT_NE(found, expected.end());
              ASSERT_NEAR(draw.weight, found->second, 1e-6);
            }
          }
        }
      }
    }
  }
}

TEST(MemberDraws, AreNoneIfNoMemberHasAHistory) {
  const Histories histories = some_histories();
  for (const MetaDraw meta_draw : {MetaDraw::kOne, MetaDraw::kAll}) {
    McnbOptions options;
    options.meta_draw = meta_draw;
    options.meta_samples = 2;
    MemberDraws draws(options, kSeed);
    const std::vector<UserId> cluster{UserId{3}, UserId{7}, UserId{11}};
    const auto steps = draws.draw(histories, cluster, RoundId{1}, ArmIndex{0});
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_TRUE(steps[0].empty());
  }
}

}  // namespace
}  // namespace mcnb::member_draws_test
