#include "mcnb/bandit/mcnb/event_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "mcnb/base/thread_pool.h"

namespace mcnb::event_sums_test {
namespace {

constexpr std::size_t kPadded = 16;

// Counts how often sums are computed; those of event e are e + factor.
struct Computed {
  float factor = 0.5F;
  std::atomic<int> times = 0;

  float first_of(const EventSums& sums, std::uint32_t event) {
    float room[kPadded] = {};
    const float* found = sums.find(EventId{event}, room, [&](float* to) {
      std::fill_n(to, kPadded, static_cast<float>(event) + factor);
      ++times;
    });
    EXPECT_EQ(found[0], found[kPadded - 1]);
    return found[0];
  }
};

TEST(EventSums, AreComputedOnceUntilTheyAreForgotten) {
  EventSums sums;
  Computed computed;
  EXPECT_EQ(computed.first_of(sums, 1), 1.5F) << "without room for the event";
  EXPECT_EQ(computed.first_of(sums, 1), 1.5F);
  EXPECT_EQ(computed.times, 2);
  sums.grow(3, kPadded);
  EXPECT_EQ(computed.first_of(sums, 1), 1.5F);
  EXPECT_EQ(computed.first_of(sums, 2), 2.5F);
  sums.grow(5, kPadded);
  computed.factor = 0.25F;
  EXPECT_EQ(computed.first_of(sums, 1), 1.5F) << "still known";
  EXPECT_EQ(computed.times, 4);
  sums.forget(EventId{1});
  sums.forget(EventId{77});
  EXPECT_EQ(computed.first_of(sums, 1), 1.25F);
  EXPECT_EQ(computed.first_of(sums, 2), 2.5F);
  sums.clear();
  EXPECT_EQ(computed.first_of(sums, 2), 2.25F);
  sums.grow(5, 2 * kPadded);
  computed.factor = 0.125F;
  EXPECT_EQ(computed.first_of(sums, 2), 2.125F) << "sums of another length are not known";
  EXPECT_GE(sums.memory_bytes(), 5 * 2 * kPadded * sizeof(float));
}

TEST(EventSums, ThreadsThatAskAtTheSameTimeFindTheSame) {
  ThreadPool threads(8);
  for (int round = 0; round < 50; ++round) {
    EventSums sums;
    sums.grow(20, kPadded);
    Computed computed;
    threads.parallel_for(400, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto event = static_cast<std::uint32_t>(i % 20);
        EXPECT_EQ(computed.first_of(sums, event), static_cast<float>(event) + 0.5F);
      }
    });
    EXPECT_GE(computed.times, 20);
  }
}

}  // namespace
}  // namespace mcnb::event_sums_test
