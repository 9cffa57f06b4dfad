// The queue between the engine's stages: its order, its limit, closing, and waiting.

#include "mcnb/serve/engine/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace mcnb::bounded_queue_test {
namespace {

using namespace std::chrono_literals;

TEST(BoundedQueue, GivesItemsInTheOrderTheyCame) {
  BoundedQueue<int> queue(10);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(queue.try_push(int(i)));
  }
  EXPECT_EQ(queue.pop(0ms), 0);
  EXPECT_EQ(queue.take(2, 0ms), (std::vector{1, 2}));
  EXPECT_EQ(queue.take(10, 0ms), (std::vector{3, 4}));
  EXPECT_EQ(queue.pop(0ms), std::nullopt);
  EXPECT_FALSE(queue.finished());
}

TEST(BoundedQueue, AFullQueueRefusesAndLeavesTheItemAlone) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  EXPECT_TRUE(queue.wait_for_room(0ms));
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(2)));
  EXPECT_FALSE(queue.wait_for_room(0ms));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(queue.try_push(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_FALSE(queue.push(std::move(third), 5ms));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(**queue.pop(0ms), 1);
  EXPECT_TRUE(queue.try_push(std::move(third)));
}

TEST(BoundedQueue, AClosedQueueTakesNothingButGivesWhatItHas) {
  BoundedQueue<int> queue(10);
  EXPECT_TRUE(queue.try_push(1));
  queue.close();
  EXPECT_FALSE(queue.try_push(2));
  EXPECT_FALSE(queue.push(2, 1h));
  EXPECT_FALSE(queue.finished());
  EXPECT_EQ(queue.pop(1h), 1);
  EXPECT_TRUE(queue.finished());
  EXPECT_EQ(queue.pop(1h), std::nullopt);
  EXPECT_TRUE(queue.take(10, 1h).empty());
}

TEST(BoundedQueue, WaitingEndsByTimeByAnItemByRoomAndByClosing) {
  BoundedQueue<int> queue(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(queue.pop(20ms), std::nullopt);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  const auto later = [](auto work) {
    return std::thread([work] {
      std::this_thread::sleep_for(10ms);
      work();
    });
  };
  std::thread pusher = later([&] { queue.try_push(1); });
  EXPECT_EQ(queue.pop(1h), 1);
  pusher.join();
  ASSERT_TRUE(queue.try_push(2));
  std::thread taker = later([&] { queue.pop(0ms); });
  EXPECT_TRUE(queue.push(3, 1h));
  taker.join();
  std::thread closer = later([&] { queue.close(); });
  EXPECT_FALSE(queue.push(4, 1h));
  closer.join();
}

TEST(BoundedQueue, ManyThreadsLoseAndRepeatNothing) {
  constexpr int kThreads = 4;
  constexpr int kItems = 2000;
  BoundedQueue<int> queue(7);
  std::vector<std::atomic<int>> seen(kThreads * kItems);
  std::vector<std::thread> producers;
  std::vector<std::thread> consumers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) {
        ASSERT_TRUE(queue.push(t * kItems + i, 1h));
      }
    });
    consumers.emplace_back([&] {
      while (!queue.finished()) {
        const std::vector<int> items = queue.take(5, 1h);
        ASSERT_LE(items.size(), 5U);
        for (const int item : items) {
          seen[static_cast<std::size_t>(item)].fetch_add(1);
        }
      }
    });
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
  queue.close();
  for (std::thread& consumer : consumers) {
    consumer.join();
  }
  for (const std::atomic<int>& count : seen) {
    ASSERT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace mcnb::bounded_queue_test
