// What the service refuses so that its memory stays below a limit, and that the rest goes on.

#include <gtest/gtest.h>
#include <unistd.h>

#include "mcnb/serve/engine/memory_limit.h"
#include "tests/serve/engine/stepped_engine.h"

namespace mcnb::memory_limit_test {
namespace {

using namespace cases;

EngineOptions limited(double bytes) {
  EngineOptions options = stepped_options();
  options.memory_bytes = bytes;
  return options;
}

std::shared_ptr<CreateTask> create_task(const std::string& name, const std::string& policy,
                                        std::uint64_t dimension) {
  auto task = std::make_shared<CreateTask>();
  task->model = name;
  task->options.dimension = dimension;
  task->options.policy = parse_policy(policy);
  return task;
}

TEST(MemoryLimit, AModelThatIsTooLargeForTheServiceIsRefusedBeforeItIsMade) {
  SteppedEngine engine(limited(4e9));
  const auto giant = engine.run(create_task("giant", "mcnb:width=16384:depth=4", 4096));
  ASSERT_TRUE(giant->error.has_value());
  EXPECT_EQ(giant->error->status(), 400);
  EXPECT_NE(giant->error->message.find("GB of memory"), std::string::npos);
  EXPECT_NE(giant->error->message.find("4.0 GB"), std::string::npos);
  EXPECT_EQ(giant->made, nullptr);
  SteppedEngine roomy(limited(1e12));
  const auto slow = roomy.run(create_task("giant", "mcnb:width=16384:depth=4", 4096));
  ASSERT_TRUE(slow->error.has_value());
  EXPECT_EQ(slow->error->status(), 400);
  EXPECT_NE(slow->error->message.find("estimated"), std::string::npos);
  EXPECT_NE(slow->error->message.find(" s, expected"), std::string::npos);
  EXPECT_TRUE(roomy.core().reports().empty());
}

TEST(MemoryLimit, ModelsThatNoLongerFitAreRefusedAndOthersGoOn) {
  SteppedEngine engine(limited(400e6));
  // Each has a triangle of 67 MB, and its first user one of 200 MB.
  int made = 0;
  std::shared_ptr<CreateTask> last;
  for (int i = 0; i < 3; ++i) {
    last = engine.run(create_task("hybrid-" + std::to_string(i), "linucb:users=hybrid", 4095));
    made += last->error ? 0 : 1;
  }
  EXPECT_GE(made, 1);
  ASSERT_TRUE(last->error.has_value());
  EXPECT_EQ(last->error->code, ErrorCode::kMemoryFull);
  EXPECT_EQ(last->error->status(), 507);
  EXPECT_NE(last->error->message.find("memory_gigabytes"), std::string::npos);
  EXPECT_FALSE(engine.run(create_task("small", "linucb", 4))->error.has_value());
  // Removing one makes room.
  engine.run(
      control_task([](ControlTask&, ModelHost& host, std::int64_t) { host.remove("hybrid-0"); }));
  EXPECT_FALSE(engine.run(create_task("again", "linucb:users=hybrid", 4095))->error.has_value());
}

TEST(MemoryLimit, GrowthIsRefusedAndTheRestGoesOn) {
  constexpr double kLimit = 1e6;
  SteppedEngine engine(limited(kLimit));
  auto create = create_task("m", "mcnb:width=100", 4);
  ASSERT_FALSE(engine.run(create)->error.has_value()) << create->error->message;
  std::uint64_t users = 0;
  std::shared_ptr<RankTask> refused;
  for (std::uint64_t i = 0; i < 3000 && !refused; ++i) {
    const std::string user = "user-" + std::to_string(i);
    const auto rank = engine.run(rank_task(request_of(i, user)));
    if (rank->error) {
      refused = rank;
    } else {
      ++users;
      ASSERT_FALSE(engine.run(reward_task(rank->request.event_id, 1.0F))->error.has_value());
    }
    engine.clock.advance(100);
  }
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->error->code, ErrorCode::kMemoryFull);
  EXPECT_GT(users, 100U);
  EXPECT_LE(static_cast<double>(engine.report("m").memory_bytes), kLimit);
  // Users who are known are served, rewarded and forgotten.
  const auto known = engine.run(rank_task(request_of(5000, "user-0")));
  ASSERT_FALSE(known->error.has_value()) << known->error->message;
  const auto reward = engine.run(reward_task(known->request.event_id, 1.0F));
  EXPECT_EQ(reward->outcome, RewardOutcome::kLearned);
  const auto state = engine.digests();
  engine.crash();
  engine.start();  // a start refuses nothing
  EXPECT_EQ(engine.digests(), state);
}

TEST(MemoryLimit, ModelsAreMadeBesideTheRequests) {
  SteppedEngine engine;
  ASSERT_FALSE(engine.run(create_task("m", "linucb", 4))->error.has_value());
  const EngineCore::Wait at_once(0);
  const auto create = create_task("new", "mcnb", 4);
  int answers = 0;
  create->done = [&] { ++answers; };
  ASSERT_TRUE(engine.core().submit(create));
  engine.core().compute(at_once);
  // The name is taken while the model is made, and others are served.
  const auto same = create_task("new", "linucb", 4);
  same->done = [&] { ++answers; };
  ASSERT_TRUE(engine.core().submit(same));
  engine.core().compute(at_once);
  EXPECT_EQ(answers, 1);
  ASSERT_TRUE(same->error.has_value());
  EXPECT_EQ(same->error->code, ErrorCode::kModelExists);
  const auto rank = rank_task(request_of(1, "ann"));
  rank->done = [&] { ++answers; };
  ASSERT_TRUE(engine.core().submit(rank));
  const auto compute_and_answer = [&] {
    engine.core().compute(at_once);
    engine.core().write(at_once);
    engine.core().acknowledge(at_once);
  };
  compute_and_answer();
  EXPECT_EQ(answers, 2);
  engine.core().build(at_once);
  compute_and_answer();
  EXPECT_EQ(answers, 3);
  EXPECT_FALSE(create->error.has_value());
  EXPECT_EQ(create->report.name, "new");
  engine.crash();
  engine.start();
  EXPECT_EQ(engine.report("new").counts.decisions, 0U);
}

TEST(MemoryLimit, AModelThatIsRemovedAsSoonAsItIsThereWasMade) {
  SteppedEngine engine;
  const auto create = create_task("new", "linucb", 4);
  ASSERT_TRUE(engine.core().submit(create));
  engine.core().compute(EngineCore::Wait(0));
  engine.core().build(EngineCore::Wait(0));
  const auto remove = engine.run(
      control_task([](ControlTask&, ModelHost& host, std::int64_t) { host.remove("new"); }));
  EXPECT_FALSE(remove->error.has_value());
  EXPECT_FALSE(create->error.has_value()) << create->error->message;
  EXPECT_EQ(create->report.name, "new");
}

TEST(MemoryLimit, ClosingAnswersThoseWhoseModelIsBeingMade) {
  SteppedEngine engine;
  const auto create = create_task("new", "mcnb", 4);
  int answers = 0;
  create->done = [&] { ++answers; };
  ASSERT_TRUE(engine.core().submit(create));
  engine.core().compute(EngineCore::Wait(0));
  engine.core().close();
  while (engine.core().compute(EngineCore::Wait(0))) {
  }
  EXPECT_EQ(answers, 1);
  ASSERT_TRUE(create->error.has_value());
  EXPECT_EQ(create->error->status(), 503);
}

TEST(MemoryLimit, TheMachineHasMemory) {
  EXPECT_GT(usable_memory(), 1e8);
  EXPECT_LE(usable_memory(), static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<double>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace mcnb::memory_limit_test
