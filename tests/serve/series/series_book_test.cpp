// The time series against plain counts over the list of everything that was seen.

#include "mcnb/serve/series/series_book.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mcnb/base/random.h"
#include "tests/temporary_folder.h"

namespace mcnb::series_book_test {
namespace {

constexpr std::int64_t kBegin = 1'700'000'000'000;
constexpr std::uint32_t kModel = 3;
const Resolution& kFinest = kResolutions[0];

std::uint64_t key_of(std::uint64_t number) { return number * 0x9E3779B97F4A7C15ULL; }

// Decisions with their ends, `apart` milliseconds after each other: an action of three in five is
// the preferred one, and pays more.
std::vector<Observation> some_events(std::uint64_t count, std::int64_t apart,
                                     std::uint64_t first = 0) {
  std::vector<Observation> all;
  for (std::uint64_t i = first; i < first + count; ++i) {
    Rng rng(5, Stream::kTest, i);
    const bool explored = rng.uniform() < 0.4;
    const auto action = explored ? rng.below(3) : 1;
    const float propensity = action == 1 ? 0.6F + 0.4F / 3.0F : 0.4F / 3.0F;
    const std::int64_t time = kBegin + static_cast<std::int64_t>(i) * apart;
    all.emplace_back(DecisionSeen{.model = kModel,
                                  .event = key_of(i),
                                  .user = i % 7,
                                  .time = time,
                                  .propensity = propensity,
                                  .actions = 3,
                                  .first = action == 0,
                                  .explored = action != 1,
                                  .action = "action-" + std::to_string(action)});
    if (i % 5 != 4) {
      const float reward = rng.uniform() < 0.2 + 0.2 * static_cast<double>(action) ? 1.0F : 0.0F;
      all.emplace_back(EventEnded{kModel, key_of(i), reward, reward > 0.0F});
    } else if (i % 10 == 4) {
      all.emplace_back(EventEnded{kModel, key_of(i), std::nullopt, false});
    }
  }
  return all;
}

// What a bucket must hold, from the list.
struct Plain {
  std::uint32_t decisions = 0;
  std::uint32_t explored = 0;
  std::uint32_t settled = 0;
  std::uint32_t rewarded = 0;
  std::array<std::uint32_t, Bucket::kProbabilityBins> probabilities{};
  std::map<std::string, std::uint32_t> actions;
  std::vector<std::pair<double, double>> random;  // weights and rewards
  std::vector<std::pair<double, double>> first;
  double reward_sum = 0.0;
};

std::map<std::int64_t, Plain> plain_counts(const std::vector<Observation>& all,
                                           std::int64_t length) {
  std::map<std::int64_t, Plain> buckets;
  std::map<std::uint64_t, DecisionSeen> decisions;
  for (const Observation& one : all) {
    if (const auto* seen = std::get_if<DecisionSeen>(&one)) {
      decisions[seen->event] = *seen;
      Plain& bucket = buckets[seen->time / length * length];
      ++bucket.decisions;
      bucket.explored += seen->explored ? 1 : 0;
      ++bucket.probabilities[static_cast<std::size_t>(seen->propensity * 10.0F)];
      ++bucket.actions[seen->action];
    } else if (const auto* end = std::get_if<EventEnded>(&one); end != nullptr && end->reward) {
      const DecisionSeen& decision = decisions.at(end->event);
      Plain& bucket = buckets[decision.time / length * length];
      ++bucket.settled;
      bucket.rewarded += end->rewarded ? 1 : 0;
      bucket.reward_sum += *end->reward;
      const double propensity = decision.propensity;
      bucket.random.emplace_back(1.0 / 3.0 / propensity, *end->reward);
      if (decision.first) {
        bucket.first.emplace_back(1.0 / propensity, *end->reward);
      }
    }
  }
  return buckets;
}

// The ratio of weighted rewards to weights, with the interval of the delta method.
void expect_mean(const WeightedRewards& sums, const std::vector<std::pair<double, double>>& all) {
  double weights = 0.0;
  double rewards = 0.0;
  for (const auto& [weight, reward] : all) {
    weights += weight;
    rewards += weight * reward;
  }
  const std::optional<SeriesMean> mean = sums.mean();
  ASSERT_EQ(mean.has_value(), sums.effective_size() >= 2.0);
  if (mean) {
    const double value = rewards / weights;
    double spread = 0.0;
    for (const auto& [weight, reward] : all) {
      spread += std::pow(weight * (reward - value), 2.0);
    }
    EXPECT_NEAR(mean->value, value, 1e-9);
    EXPECT_NEAR(mean->high - mean->value, 1.959964 * std::sqrt(spread) / weights, 1e-5);
    EXPECT_NEAR(mean->value - mean->low, mean->high - mean->value, 1e-12);
  }
}

void expect_bucket(const Bucket& bucket, const std::vector<std::string>& names,
                   const Plain& plain) {
  EXPECT_EQ(bucket.decisions, plain.decisions);
  EXPECT_EQ(bucket.explored, plain.explored);
  EXPECT_EQ(bucket.settled, plain.settled);
  EXPECT_EQ(bucket.rewarded, plain.rewarded);
  EXPECT_EQ(bucket.probabilities, plain.probabilities);
  EXPECT_EQ(bucket.policy.weights, plain.settled);
  EXPECT_EQ(bucket.policy.rewards, plain.reward_sum);
  expect_mean(bucket.random, plain.random);
  expect_mean(bucket.first, plain.first);
  std::map<std::string, std::uint32_t> actions;
  for (const ActionShare& share : bucket.actions) {
    actions[names.at(share.name)] = share.decisions;
  }
  EXPECT_EQ(actions, plain.actions);
}

void expect_same(const SeriesBook& a, const SeriesBook& b) {
  for (const Resolution& resolution : kResolutions) {
    const SeriesBook::ModelView left = a.model(kModel, resolution);
    const SeriesBook::ModelView right = b.model(kModel, resolution);
    EXPECT_EQ(left.names, right.names);
    ASSERT_EQ(left.buckets.size(), right.buckets.size());
    for (std::size_t i = 0; i < left.buckets.size(); ++i) {
      EXPECT_EQ(left.buckets[i].begin, right.buckets[i].begin);
      EXPECT_EQ(left.buckets[i].decisions, right.buckets[i].decisions);
      EXPECT_EQ(left.buckets[i].settled, right.buckets[i].settled);
      EXPECT_EQ(left.buckets[i].random.rewards, right.buckets[i].random.rewards);
    }
  }
}

TEST(SeriesBook, EveryBucketOfEveryResolutionHoldsWhatAPlainCountHolds) {
  SeriesBook book;
  const std::vector<Observation> all = some_events(3000, 40'000);  // 33 hours
  book.record(all);
  for (const Resolution& resolution : kResolutions) {
    std::map<std::int64_t, Plain> plain = plain_counts(all, resolution.milliseconds);
    const auto kept = static_cast<std::int64_t>(resolution.kept) * resolution.milliseconds;
    std::erase_if(plain, [last = plain.rbegin()->first, kept](const auto& bucket) {
      return bucket.first <= last - kept;
    });
    const SeriesBook::ModelView view = book.model(kModel, resolution);
    ASSERT_EQ(view.buckets.size(), plain.size()) << resolution.name;
    auto expected = plain.begin();
    for (const Bucket& bucket : view.buckets) {
      EXPECT_EQ(bucket.begin, expected->first);
      expect_bucket(bucket, view.names, expected->second);
      ++expected;
    }
  }
}

TEST(SeriesBook, OldBucketsGoAndLateRewardsDoNotBringThemBack) {
  SeriesBook book;
  const std::vector<Observation> all = some_events(2, 0);
  book.record(std::span(all).first(1));
  const std::int64_t later = kBegin + 10 * 86'400'000LL;
  const DecisionSeen decision{.model = kModel, .event = 1, .time = later, .action = "a"};
  book.record(std::vector<Observation>{decision});
  book.record(std::span(all).subspan(1, 1));  // the reward of the first event
  EXPECT_EQ(book.model(kModel, kFinest).buckets.size(), 1U);
  EXPECT_EQ(book.model(kModel, kFinest).buckets.front().begin, later / 10'000 * 10'000);
  EXPECT_EQ(book.model(kModel, kResolutions[3]).buckets.size(), 2U);
  EXPECT_EQ(book.model(kModel, kResolutions[3]).buckets.front().settled, 1U);
  EXPECT_EQ(book.model(kModel, kResolutions[3], later).buckets.size(), 0U);
  EXPECT_TRUE(book.model(99, kFinest).buckets.empty());
}

TEST(SeriesBook, RandomChoiceIsEstimatedFromTheExplorationThatIsThere) {
  SeriesBook book;
  book.record(some_events(20'000, 1));
  WeightedRewards random;
  WeightedRewards first;
  for (const Bucket& bucket : book.model(kModel, kResolutions[3]).buckets) {
    random = bucket.random;
    first = bucket.first;
  }
  // The actions pay 0.2, 0.4 and 0.6.
  EXPECT_NEAR(random.mean()->value, 0.4, 0.02);
  EXPECT_LT(random.mean()->low, 0.4);
  EXPECT_GT(random.mean()->high, 0.4);
  EXPECT_NEAR(first.mean()->value, 0.2, 0.04);
  EXPECT_LT(random.effective_size(), random.weights);
}

TEST(SeriesBook, ManyWaitingEventsAreFollowedAsASampleThatSaysTheSame) {
  SeriesBook book;
  std::vector<Observation> decisions;
  std::vector<Observation> ends;
  for (const Observation& one : some_events(100'000, 0)) {
    (std::holds_alternative<DecisionSeen>(one) ? decisions : ends).push_back(one);
  }
  book.record(decisions);
  book.record(ends);
  const Bucket bucket = book.model(kModel, kFinest).buckets.at(0);
  EXPECT_EQ(bucket.decisions, 100'000U);
  EXPECT_LE(bucket.settled, 16'384U);
  EXPECT_GT(bucket.settled, 4'000U);
  EXPECT_NEAR(bucket.random.mean()->value, 0.4, 0.05);
}

TEST(SeriesBook, AFileContinuesWhereItWasSaved) {
  const TemporaryFolder folder;
  const std::vector<Observation> all = some_events(400, 30'000);
  const ServiceTotals totals{.requests = 7, .errors = 1, .log_bytes = 50, .latency = {1, 2, 3}};
  SeriesBook whole;
  {
    SeriesBook book(folder / "series.state");
    for (SeriesBook* one : {&book, &whole}) {
      one->record(std::span(all).first(333));
      one->record(std::vector<Observation>{SettingsSeen{kModel, kBegin, "epsilon = 0.5"}});
      one->sample(ServiceTotals(), kBegin);
      one->sample(totals, kBegin);
    }
    book.save();
  }
  SeriesBook again(folder / "series.state");
  EXPECT_EQ(again.warning(), "");
  for (SeriesBook* one : {&again, &whole}) {
    one->record(std::span(all).subspan(333));
  }
  expect_same(again, whole);
  ASSERT_EQ(again.settings(kModel).size(), 1U);
  EXPECT_EQ(again.settings(kModel).front().settings, "epsilon = 0.5");
  ASSERT_EQ(again.service(kFinest).size(), 1U);
  EXPECT_EQ(again.service(kFinest).front().requests, 7U);
  EXPECT_EQ(again.service(kFinest).front().latency[1], 2U);
}

TEST(SeriesBook, ADamagedFileIsLeftOutWithAWarning) {
  const TemporaryFolder folder;
  const auto path = folder / "series.state";
  {
    SeriesBook book(path);
    book.record(some_events(50, 1000));
    book.save();
  }
  const std::string good = file_contents(path);
  for (std::size_t at = 0; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    put_file(path, bad);
    const SeriesBook book(path);
    EXPECT_NE(book.warning().find("series.state"), std::string::npos) << at;
    EXPECT_TRUE(book.model(kModel, kFinest).buckets.empty());
  }
  put_file(path, good.substr(0, good.size() / 2));
  EXPECT_NE(SeriesBook(path).warning(), "");
}

TEST(SeriesBook, WhatIsForgottenLeavesTheFile) {
  const TemporaryFolder folder;
  const auto path = folder / "series.state";
  const std::uint64_t user = 0x1122334455667788;
  const std::string bytes(reinterpret_cast<const char*>(&user), sizeof user);
  SeriesBook book(path);
  book.record(std::vector<Observation>{DecisionSeen{
      .model = kModel, .event = 5, .user = user, .time = kBegin, .action = "the-action"}});
  book.save();
  EXPECT_NE(file_contents(path).find(bytes), std::string::npos);
  EXPECT_FALSE(book.must_save());
  book.record(std::vector<Observation>{UserForgotten{kModel, user}});
  EXPECT_TRUE(book.must_save());
  book.save();
  EXPECT_EQ(file_contents(path).find(bytes), std::string::npos);
  EXPECT_EQ(book.model(kModel, kFinest).buckets.front().decisions, 1U);
  book.record(std::vector<Observation>{ModelRemoved{kModel}});
  EXPECT_TRUE(book.must_save());
  book.save();
  EXPECT_EQ(file_contents(path).find("the-action"), std::string::npos);
}

TEST(SeriesBook, EventsThatWaitNoLongerAfterAStartAreDropped) {
  SeriesBook book;
  const std::vector<Observation> all = some_events(30, 1);
  std::vector<Observation> ends;
  for (const Observation& one : all) {
    if (std::holds_alternative<DecisionSeen>(one)) {
      book.record({&one, 1});
    } else {
      ends.push_back(one);
    }
  }
  const std::uint64_t kept = std::get<EventEnded>(ends.front()).event;
  book.keep_waiting([&](std::uint32_t model, std::uint64_t event) {
    EXPECT_EQ(model, kModel);
    return event == kept;
  });
  EXPECT_TRUE(book.must_save());
  book.record(ends);
  EXPECT_EQ(book.model(kModel, kFinest).buckets.front().settled, 1U);
}

TEST(SeriesBook, AModelOfManyActionsTakesLessThanTwoMegabytes) {
  const TemporaryFolder folder;
  SeriesBook book(folder / "series.state");
  std::vector<Observation> all;
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    all.emplace_back(DecisionSeen{.model = kModel,
                                  .event = key_of(i),
                                  .time = kBegin + static_cast<std::int64_t>(i) * 100'000,
                                  .action = "action " + std::to_string(i % 1000)});
  }
  book.record(all);
  book.save();
  EXPECT_LT(std::filesystem::file_size(folder / "series.state"), 2'000'000U);
  const SeriesBook::ModelView view = book.model(kModel, kResolutions[3]);
  EXPECT_LE(view.names.size(), 257U);
  for (const Bucket& bucket : view.buckets) {
    std::uint32_t sum = 0;
    for (const ActionShare& share : bucket.actions) {
      sum += share.decisions;
    }
    EXPECT_EQ(sum, bucket.decisions);
    EXPECT_LE(bucket.actions.size(), Bucket::kMostActions + 1);
  }
}

}  // namespace
}  // namespace mcnb::series_book_test
