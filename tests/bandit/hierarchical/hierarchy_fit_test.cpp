// Fits beside the rounds, and states that are saved during them.

#include <thread>

#include "tests/bandit/hierarchical/hierarchy_cases.h"

namespace mcnb::hierarchy_fit_test {
namespace {

using namespace hierarchy_cases;

TEST(Hierarchy, AFitBesideTheRoundsEndsWhereAFitInPlaceDoes) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy beside = make(world, threads);
    Hierarchy in_place = make(world, threads);
    std::vector<Reward> rewards = draw_rewards(world);
    const std::size_t half = rewards.size() / 2;
    learn_all(beside, rewards, 0, half);
    learn_all(in_place, rewards, 0, half);
    const FitOptions options{.fading = 0.5};
    in_place.fit(options);
    learn_all(in_place, rewards, half);
    const std::shared_ptr<HierarchyFit> fit = beside.begin_fit(options);
    learn_all(beside, rewards, half, half + 4);
    fit->run();
    learn_all(beside, rewards, half + 4, half + 5);
    beside.finish_fit(fit->result());
    EXPECT_TRUE(beside.is_catching_up());
    learn_all(beside, rewards, half + 5);
    EXPECT_FALSE(beside.is_catching_up());
    EXPECT_EQ(beside.scales(), in_place.scales());
    for (std::size_t i = 0; i < half; ++i) {
      rewards[i].weight = std::exp2(-0.5);
    }
    expect_posterior_of(beside, rewards, "beside");
    EXPECT_NEAR(beside.shared_mean().norm(), in_place.shared_mean().norm(), 1e-9);
  }
}

TEST(Hierarchy, AFitReadsTheHistoriesAsTheyWereWhileRewardsGoOn) {
  ThreadPool threads(1);
  World world = worlds()[1];
  world.rewards = 4000;
  Hierarchy quiet = make(world, threads);
  Hierarchy busy = make(world, threads);
  const std::vector<Reward> rewards = draw_rewards(world);
  learn_all(quiet, rewards, 0, 1000);
  learn_all(busy, rewards, 0, 1000);
  const std::shared_ptr<HierarchyFit> expected = quiet.begin_fit({});
  expected->run();
  const std::shared_ptr<HierarchyFit> fit = busy.begin_fit({});
  std::thread other([&] { fit->run(); });
  learn_all(busy, rewards, 1000);
  other.join();
  EXPECT_EQ(fit->result(), expected->result());
}

// Plays a fit in slices, saving and loading at one step, and returns the last state.
std::string play_fit(const World& world, std::size_t reload_at, bool run_again) {
  ThreadPool threads(1);
  auto hierarchy = std::make_unique<Hierarchy>(make(world, threads));
  const std::vector<Reward> rewards = draw_rewards(world);
  const std::size_t half = rewards.size() / 2;
  std::string result;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (i == reload_at) {
      const std::string bytes = saved(*hierarchy);
      hierarchy = std::make_unique<Hierarchy>(make(world, threads));
      load(*hierarchy, bytes);
      EXPECT_EQ(saved(*hierarchy), bytes);
    }
    learn_all(*hierarchy, rewards, i, i + 1);
    if (i == half) {
      hierarchy->begin_fit({.fading = 0.25})->run();
      result = hierarchy->fit_in_progress()->result();
    } else if (i == half + 5) {
      if (run_again) {
        hierarchy->fit_in_progress()->run();
        EXPECT_EQ(hierarchy->fit_in_progress()->result(), result);
      }
      hierarchy->finish_fit(result);
    }
  }
  return saved(*hierarchy);
}

TEST(Hierarchy, ASavedFitContinuesBitForBit) {
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    const std::string expected = play_fit(world, world.rewards, false);
    for (std::size_t at = world.rewards / 2 - 1; at < world.rewards; ++at) {
      ASSERT_EQ(play_fit(world, at, at % 2 == 0), expected) << "saved before reward " << at;
    }
  }
}

// A service replays its log without the predictions between the rewards.
TEST(Hierarchy, PredictionsLeaveNoTraceInTheSavedState) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy quiet = make(world, threads);
    Hierarchy asked = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    const auto ask = [&] {
      std::vector<Hierarchy::Prediction> said;
      const std::span<const float> arm(rewards.front().arm);
      for (std::size_t learner = 0; learner < kUsers; ++learner) {
        asked.predict(learner, user_numbers(learner), {&arm, 1}, said);
      }
      EXPECT_EQ(saved(asked), saved(quiet));
    };
    const std::size_t half = rewards.size() / 2;
    for (Hierarchy* each : {&quiet, &asked}) {
      learn_all(*each, rewards, 0, half);
      each->fit({.fading = 0.5});
    }
    ask();
    for (Hierarchy* each : {&quiet, &asked}) {
      each->fit({.fading = 0.25});  // nothing was learned since the last one
    }
    ask();
    for (std::size_t i = half; i < rewards.size(); ++i) {
      learn_all(quiet, rewards, i, i + 1);
      learn_all(asked, rewards, i, i + 1);
      ask();
    }
  }
}

TEST(Hierarchy, AnEmptyResultEndsAFitWithoutEffect) {
  ThreadPool threads(1);
  Hierarchy without = make(worlds().front(), threads);
  Hierarchy with = make(worlds().front(), threads);
  const std::vector<Reward> rewards = draw_rewards(worlds().front());
  learn_all(without, rewards);
  learn_all(with, rewards, 0, 10);
  with.begin_fit({});
  learn_all(with, rewards, 10, 15);
  with.finish_fit("");
  EXPECT_EQ(with.fit_in_progress(), nullptr);
  learn_all(with, rewards, 15);
  EXPECT_EQ(saved(with), saved(without));
}

void expect_that_forgetting_ends_a_fit(bool catching_up) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const HierarchyScales before = hierarchy.scales();
    std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards, 0, 12);
    const std::shared_ptr<HierarchyFit> fit = hierarchy.begin_fit({});
    learn_all(hierarchy, rewards, 12, 16);
    if (catching_up) {
      fit->run();
      hierarchy.finish_fit(fit->result());
      EXPECT_TRUE(hierarchy.is_catching_up());
    }
    hierarchy.forget(0);
    EXPECT_EQ(hierarchy.fit_in_progress(), nullptr);
    EXPECT_FALSE(hierarchy.is_catching_up());
    EXPECT_EQ(hierarchy.scales(), before);
    if (!catching_up) {
      fit->run();
      EXPECT_EQ(fit->result(), "");
    }
    learn_all(hierarchy, rewards, 16);
    for (std::size_t i = 0; i < 16; ++i) {
      rewards[i].weight = rewards[i].learner == 0 ? 0.0 : 1.0;
    }
    std::erase_if(rewards, [](const Reward& reward) { return reward.weight == 0.0; });
    expect_posterior_of(hierarchy, rewards, "after forgetting");
  }
}

TEST(Hierarchy, ForgettingEndsAFit) { expect_that_forgetting_ends_a_fit(false); }

TEST(Hierarchy, ForgettingDropsAFitThatIsStillCatchingUp) {
  expect_that_forgetting_ends_a_fit(true);
}

// Everything that changes what learners hold, with predictions in between.
TEST(Hierarchy, TheRunningCountOfMemoryIsThatOfAFullCount) {
  ThreadPool threads(1);
  for (World world : worlds()) {
    SCOPED_TRACE(world.name);
    world.rewards = 160;
    Hierarchy hierarchy = make(world, threads, has_body(world) ? 0 : 3);
    std::vector<Reward> rewards = draw_rewards(world);
    std::vector<Hierarchy::Prediction> said;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      rewards[i].arm[0] += 0.01F * static_cast<float>(i % 40);
      learn_all(hierarchy, rewards, i, i + 1);
      const std::span<const float> arm(rewards[i / 2].arm);
      hierarchy.predict(i % kUsers, user_numbers(i % kUsers), {&arm, 1}, said);
      if (i % 40 == 20) {
        hierarchy.begin_fit({.fading = 0.5})->run();
      } else if (i % 40 == 26) {
        hierarchy.finish_fit(hierarchy.fit_in_progress()->result());
      } else if (i == 110 || i == 148) {
        hierarchy.forget(2);
      } else if (i == 25 || i == 68 || i == 120) {
        load(hierarchy, saved(hierarchy));
        if (hierarchy.fit_in_progress()) {
          hierarchy.fit_in_progress()->run();
        }
      }
      ASSERT_EQ(hierarchy.memory_bytes(), hierarchy.count_memory_bytes()) << "after reward " << i;
    }
  }
}

TEST(Hierarchy, AFitToASampleOfUsersStillInstallsAllRewards) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    hierarchy.fit({.users = 2});
    expect_posterior_of(hierarchy, rewards, "after a fit to two users");
  }
}

}  // namespace
}  // namespace mcnb::hierarchy_fit_test
