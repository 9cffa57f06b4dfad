#include "mcnb/serve/engine/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "mcnb/base/random.h"

namespace mcnb::fair_queue_test {
namespace {

using Wait = FairQueue::Wait;

Task task_of(const std::string& client, double cost, bool large = false, std::size_t bytes = 10) {
  auto task = std::make_shared<RankTask>();
  task->client = client;
  task->cost = cost;
  task->large = large;
  task->bytes = bytes;
  return task;
}

bool push(FairQueue& queue, const Task& task) {
  std::optional<Task> displaced;
  return queue.try_push(Task(task), displaced) && !displaced;
}

TEST(FairLines, GiveClientsEqualSharesOfTheCostHoweverTheirTasksAreCut) {
  FairLines lines(0.002);
  Rng rng(1, Stream::kTest);
  const std::map<std::string, double> costs{{"tiny", 1e-5}, {"middle", 1e-3}, {"big", 0.05}};
  for (const auto& [client, cost] : costs) {
    for (double waiting = 0.0; waiting < 10.0;) {
      lines.push(task_of(client, cost * (0.5 + rng.uniform())));
      waiting += 0.5 * cost;
    }
  }
  std::map<std::string, double> got;
  for (double taken = 0.0; taken < 9.0;) {
    const std::optional<Task> task = lines.pop();
    ASSERT_TRUE(task.has_value());
    got[base_of(*task).client] += base_of(*task).cost;
    taken += base_of(*task).cost;
    const auto [least, most] = std::ranges::minmax({got["tiny"], got["middle"], got["big"]});
    ASSERT_LE(most - least, 2 * 0.075 + 0.004);
  }
}

TEST(FairLines, KeepTheOrderOfAClientAndServeALoneOneAtOnce) {
  FairLines lines(0.002);
  std::vector<Task> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(task_of("a", 100.0));
    lines.push(tasks.back());
  }
  for (const Task& expected : tasks) {
    const std::optional<Task> task = lines.pop();
    ASSERT_TRUE(task.has_value());
    EXPECT_EQ(&base_of(*task), &base_of(expected));
  }
  EXPECT_FALSE(lines.pop().has_value());
}

TEST(FairQueue, TakesTasksUntilTheirCostIsReachedButAtLeastOne) {
  FairQueue queue({});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(push(queue, task_of("a", 0.01)));
  }
  EXPECT_EQ(queue.take(0.035, 0.035, 100, Wait(0)).size(), 4U);
  EXPECT_EQ(queue.take(0.001, 0.001, 100, Wait(0)).size(), 1U);
  EXPECT_EQ(queue.take(1.0, 1.0, 3, Wait(0)).size(), 3U);
  EXPECT_EQ(queue.take(1.0, 1.0, 100, Wait(0)).size(), 2U);
  EXPECT_TRUE(queue.take(1.0, 1.0, 100, Wait(0)).empty());
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST(FairQueue, AClientAloneGetsMoreAtOnce) {
  FairQueue queue({});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(push(queue, task_of("a", 0.01)));
  }
  EXPECT_EQ(queue.take(0.02, 0.055, 100, Wait(0)).size(), 6U);
  ASSERT_TRUE(push(queue, task_of("b", 0.01)));
  EXPECT_EQ(queue.take(0.02, 0.055, 100, Wait(0)).size(), 2U);
}

TEST(FairQueue, LargeTasksHoldUpNobody) {
  FairQueue queue({});
  ASSERT_TRUE(push(queue, task_of("a", 2.0, true)));
  ASSERT_TRUE(push(queue, task_of("a", 0.001)));
  ASSERT_TRUE(push(queue, task_of("b", 0.001)));
  EXPECT_EQ(queue.take(1.0, 1.0, 100, Wait(0)).size(), 2U);
  const std::optional<Task> large = queue.take_large();
  ASSERT_TRUE(large.has_value());
  EXPECT_TRUE(base_of(*large).large);
  EXPECT_FALSE(queue.take_large().has_value());
}

TEST(FairQueue, AFullQueueGivesUpTheLastTaskOfTheLongestLine) {
  FairQueue queue({.tasks = 4});
  std::vector<Task> own;
  for (int i = 0; i < 4; ++i) {
    own.push_back(task_of("greedy", 0.001));
    ASSERT_TRUE(push(queue, own.back()));
  }
  std::optional<Task> displaced;
  EXPECT_FALSE(queue.try_push(task_of("greedy", 0.001), displaced));
  EXPECT_FALSE(displaced.has_value());
  EXPECT_TRUE(queue.try_push(task_of("modest", 0.001), displaced));
  ASSERT_TRUE(displaced.has_value());
  EXPECT_EQ(&base_of(*displaced), &base_of(own.back()));
  EXPECT_EQ(queue.size(), 4U);
}

TEST(FairQueue, BoundsBytesAndTheCostOfOneClient) {
  FairQueue queue({.tasks = 100, .bytes = 1000, .client_seconds = 1.0});
  EXPECT_TRUE(push(queue, task_of("a", 5.0, true, 400))) << "a lone task is judged by others";
  EXPECT_FALSE(push(queue, task_of("a", 0.5, true, 1)));
  EXPECT_TRUE(push(queue, task_of("b", 0.5, false, 500)));
  EXPECT_FALSE(push(queue, task_of("c", 0.5, false, 101)));
  EXPECT_TRUE(queue.take_large().has_value());
  EXPECT_TRUE(push(queue, task_of("c", 0.5, false, 101)));
  EXPECT_TRUE(push(queue, task_of("a", 0.5, true, 1))) << "the cost of taken tasks is given back";
}

TEST(FairQueue, AfterItIsClosedEverythingInItCanBeTaken) {
  FairQueue queue({});
  ASSERT_TRUE(push(queue, task_of("a", 0.001)));
  ASSERT_TRUE(push(queue, task_of("a", 1.0, true)));
  queue.close();
  EXPECT_FALSE(push(queue, task_of("a", 0.001)));
  EXPECT_FALSE(queue.finished());
  EXPECT_EQ(queue.take(1.0, 1.0, 10, Wait(0)).size(), 1U);
  EXPECT_FALSE(queue.finished());
  EXPECT_TRUE(queue.take_large().has_value());
  EXPECT_TRUE(queue.finished());
}

}  // namespace
}  // namespace mcnb::fair_queue_test
