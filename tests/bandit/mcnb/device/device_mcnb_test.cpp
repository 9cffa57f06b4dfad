// M-CNB on a device against M-CNB on the CPU, bit for bit. Without a GPU the device's kernels run
// as plain loops.

#include "mcnb/bandit/mcnb/device_mcnb.h"

#include <gtest/gtest.h>

#include "mcnb/numeric/kernels.h"
#include "tests/bandit/mcnb/device/host_rounds.h"
#include "tests/bandit/mcnb_cases.h"
#include "tests/bandit/textbook_mcnb.h"
#include "tests/expect_error.h"
#include "tests/sanitizers.h"

namespace mcnb::device_mcnb_test {
namespace {

using cases::Arrival;
using cases::lively;
using cases::OwnRound;
using cases::Session;
using cases::with;
using cases::World;

// A device adds like the instruction sets that have a fused multiply-add.
bool has_fused_kernels() { return kernels::simd_target().starts_with("avx"); }

struct Pair {
  Pair(const World& world, const McnbOptions& options)
      : threads(2),
        cpu(options, cases::setup_of(world, threads)),
        device(options, cases::setup_of(world, threads), device::make_test_rounds) {}

  ThreadPool threads;
  Mcnb cpu;
  DeviceMcnb device;
};

// What the CPU makes of the state of the device.
std::unique_ptr<Mcnb> on_the_cpu(const World& world, const McnbOptions& options,
                                 const DeviceMcnb& device, ThreadPool& threads) {
  auto cpu = std::make_unique<Mcnb>(options, cases::setup_of(world, threads));
  cases::load(*cpu, cases::saved(device));
  return cpu;
}

void expect_same_state(const World& world, const McnbOptions& options, Pair& pair) {
  const auto moved = on_the_cpu(world, options, pair.device, pair.threads);
  ASSERT_TRUE(plain::same_bits(cases::knowledge(*moved), cases::knowledge(pair.cpu)));
  for (std::uint32_t user = 0; user < pair.cpu.user_count(); ++user) {
    ASSERT_EQ(moved->trained_count(UserId{user}), pair.cpu.trained_count(UserId{user}));
  }
  ASSERT_EQ(moved->steps().training, pair.cpu.steps().training);
  ASSERT_EQ(moved->steps().adaptation, pair.cpu.steps().adaptation);
}

struct Case {
  const char* name;
  World world;
  McnbOptions options = lively();
  Arrival arrival = Arrival::kAtOnce;
  std::uint64_t rounds = 40;
  bool damps = false;  // whether steps are damped, which the CPU does
};

std::vector<Case> all_cases() {
  const auto wide = [](std::uint64_t width) {
    return with(lively(), [&](auto& o) { o.network.width = width; });
  };
  return {
      {"few users", {.features = 4, .arms = 4, .users = 8}},
      {"late rewards", {.features = 5, .arms = 3, .users = 33}, lively(), Arrival::kLate},
      {"one arm, one user", {.features = 1, .arms = 1, .users = 1}, wide(1)},
      {"the paper's sizes", {.features = 10, .arms = 10, .users = 40}, wide(100)},
      {"width 101, 20 features", {.features = 20, .arms = 7, .users = 20}, wide(101)},
      {"width 130, 37 arms",
       {.features = 6, .arms = 37, .users = 17},
       wide(130),
       Arrival::kAtOnce,
       10},
      {"width 256", {.features = 7, .arms = 2, .users = 9}, wide(256)},
      {"served",
       {.features = 4, .arms = 5, .users = 20},
       with(lively(), [](auto& o) { o.feedback = Feedback::kServed; })},
      {"pre-clusters",
       {.features = 4, .arms = 5, .users = 20},
       with(lively(), [](auto& o) { o.pre_clusters = 6; })},
      {"unit arms, no negative estimates",
       {.features = 4, .arms = 5, .users = 20},
       with(lively(),
            [](auto& o) {
              o.normalise = Normalise::kUnit;
              o.nonnegative = true;
            })},
      {"draws of many blocks",
       {.features = 3, .arms = 2, .users = 5000},
       with(wide(5), [](auto& o) { o.gamma = 0.9; }),
       Arrival::kAtOnce,
       6},
      {"sums of many levels",
       {.features = 2, .arms = 2, .users = 40'000},
       with(wide(3), [](auto& o) { o.gamma = 0.9; }),
       Arrival::kAtOnce,
       3},
      {"damped steps",
       {.features = 4, .arms = 3, .users = 12},
       with(lively(), [](auto& o) { o.eta_1 = o.eta_2 = 9.0; }),
       Arrival::kAtOnce,
       40,
       true},
  };
}

TEST(DeviceMcnb, HasTheBitsOfTheCpu) {
  if (!has_fused_kernels()) {
    GTEST_SKIP() << "this instruction set has no fused multiply-add";
  }
  for (const Case& what : all_cases()) {
    SCOPED_TRACE(what.name);
    if (device::test_few_rounds() && what.world.users > 1000) {
      continue;
    }
    Pair pair(what.world, what.options);
    Session on_cpu(what.world, what.arrival);
    Session on_device(what.world, what.arrival);
    on_cpu.start(pair.cpu);
    on_device.start(pair.device);
    const std::uint64_t rounds = device::test_rounds(what.rounds);
    on_cpu.play(pair.cpu, 0, rounds);
    on_device.play(pair.device, 0, rounds);
    ASSERT_EQ(on_device.choices(), on_cpu.choices());
    ASSERT_TRUE(cases::same_bits(on_device.values(), on_cpu.values()));
    ASSERT_TRUE(rounds < what.rounds || (pair.device.moves_to_host() > 0) == what.damps);
    ASSERT_NO_FATAL_FAILURE(expect_same_state(what.world, what.options, pair));
  }
}

TEST(DeviceMcnb, ChoosesAsTheCpuDoesForThousandsOfRounds) {
  if (!has_fused_kernels()) {
    GTEST_SKIP() << "this instruction set has no fused multiply-add";
  }
  const World world{.features = 6, .arms = 5, .users = 50};
  const std::uint64_t rounds = device::test_few_rounds() || kSanitized ? 20
                               : device::test_on_cuda()                ? 10'000
                                                                       : 400;
  Pair pair(world, lively());
  Session on_cpu(world, Arrival::kAtOnce);
  Session on_device(world, Arrival::kAtOnce);
  on_cpu.play(pair.cpu, 0, rounds);
  on_device.play(pair.device, 0, rounds);
  ASSERT_EQ(on_device.choices(), on_cpu.choices());
  ASSERT_TRUE(cases::same_bits(on_device.values(), on_cpu.values()));
  ASSERT_NO_FATAL_FAILURE(expect_same_state(world, lively(), pair));
}

TEST(DeviceMcnb, FindsTheClustersAndScoresOfTheTextbook) {
  const World world{.features = 4, .arms = 4, .users = 10};
  Pair pair(world, lively());
  textbook::TextbookMcnb textbook(lively(), world.inputs(), world.users,
                                  cases::setup_of(world, pair.threads).seed);
  for (std::uint64_t id = 0; id < device::test_rounds(60); ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> scores = pair.device.scores(own.round);
    for (const Arm& arm : own.round.arms) {
      textbook::TextbookMcnb::Members members;
      for (const std::vector<UserId> found = pair.device.cluster(arm).value();
           const UserId user : found) {
        members.push_back(index(user));
      }
      const std::vector<double> differences = textbook.differences(arm);
      for (std::size_t user = 0; user < differences.size(); ++user) {
        if (std::abs(differences[user] - textbook.gap()) > 1e-5) {
          ASSERT_EQ(std::ranges::binary_search(members, user), differences[user] <= textbook.gap());
        }
      }
      ASSERT_NEAR(scores[index(arm.index)].estimate,
                  textbook.score(own.round.id, arm, members).estimate, 1e-4)
          << "round " << id;
      ASSERT_EQ(scores[index(arm.index)].cluster_size, members.size());
    }
    const ArmIndex choice = pair.device.choose(own.round);
    const float reward = own.rewards[index(choice)];
    textbook::TextbookMcnb::Members members;
    for (const std::vector<UserId> found = pair.device.cluster(own.arm(choice)).value();
         const UserId user : found) {
      members.push_back(index(user));
    }
    pair.device.learn(own.round.id, own.arm(choice), reward);
    textbook.learn(own.round.id, own.arm(choice), reward, members, [](auto&) {});
  }
}

TEST(DeviceMcnb, StatesMoveBetweenDevicesInTheMiddle) {
  if (!has_fused_kernels()) {
    GTEST_SKIP() << "this instruction set has no fused multiply-add";
  }
  const World world{.features = 5, .arms = 4, .users = 40};
  Pair pair(world, lively());
  const std::uint64_t part = device::test_rounds(20);
  Session through(world, Arrival::kAtOnce);
  through.play(pair.cpu, 0, 3 * part);
  Session moving(world, Arrival::kAtOnce);
  Pair first(world, lively());
  moving.play(first.device, 0, part);
  Pair second(world, lively());
  cases::load(second.cpu, cases::saved(first.device));
  second.cpu.add_users(3);  // who take no part
  moving.play(second.cpu, part, 2 * part);
  cases::load(second.device, cases::saved(second.cpu));
  EXPECT_EQ(second.device.user_count(), 43U);
  moving.play(second.device, 2 * part, 3 * part);
  pair.cpu.add_users(3);
  EXPECT_EQ(moving.choices().size(), through.choices().size());
}

TEST(DeviceMcnb, UsersComeAndAreForgotten) {
  if (!has_fused_kernels()) {
    GTEST_SKIP() << "this instruction set has no fused multiply-add";
  }
  World world{.features = 5, .arms = 4, .users = 30};
  Pair pair(world, lively());
  Session on_cpu(world, Arrival::kAtOnce);
  Session on_device(world, Arrival::kAtOnce);
  const auto both = [&](auto action) {
    action(static_cast<Policy&>(pair.cpu), on_cpu);
    action(static_cast<Policy&>(pair.device), on_device);
  };
  const std::uint64_t half = device::test_rounds(30);
  both([&](Policy& policy, Session& session) { session.play(policy, 0, half); });
  both([](Policy& policy, Session&) {
    policy.add_users(40);
    EXPECT_TRUE(policy.forget(UserId{3}));
    EXPECT_EQ(policy.user_count(), 70U);
  });
  both([&](Policy& policy, Session& session) { session.play(policy, half, 2 * half); });
  EXPECT_TRUE(cases::same_bits(on_device.values(), on_cpu.values()));
  ASSERT_NO_FATAL_FAILURE(expect_same_state(world, lively(), pair));
}

TEST(DeviceMcnb, RefusesWhatItLacksByName) {
  const World world{.features = 4, .arms = 3, .users = 4};
  ThreadPool threads(1);
  const auto refused = [&](const char* name, const std::function<void(McnbOptions&)>& change) {
    expect_error(ErrorKind::kUsage, name, [&] {
      DeviceMcnb(with(lively(), change), cases::setup_of(world, threads), device::make_host_rounds);
    });
  };
  refused("depth", [](auto& o) { o.network.depth = 3; });
  refused("biases", [](auto& o) { o.network.biases = true; });
  refused("width", [](auto& o) { o.network.width = 257; });
  refused("scan", [](auto& o) {
    o.scan = Scan::kSampled;
    o.feedback = Feedback::kServed;
  });
  refused("training", [](auto& o) { o.training = TrainingMode::kReplay; });
  refused("meta_samples", [](auto& o) { o.meta_samples = 20; });
  refused("meta_steps", [](auto& o) { o.meta_steps = 2; });
  refused("meta_draw", [](auto& o) { o.meta_draw = MetaDraw::kAll; });
  refused("history_limit", [](auto& o) { o.history_limit = 5; });
  refused("keep_arms", [](auto& o) { o.keep_arms = 2; });
  PolicySetup setup = cases::setup_of(world, threads);
  setup.block_length = 2;
  expect_error(ErrorKind::kUsage, "block",
               [&] { DeviceMcnb(lively(), setup, device::make_host_rounds); });
  setup.device = Device::kCuda;
  expect_error(ErrorKind::kUsage, "device", [&] { make_policy(parse_policy("linucb"), setup); });
}

TEST(DeviceMcnb, RefusesArmsThatAreBlocks) {
  const World world{.features = 4, .arms = 3, .users = 4};
  Pair pair(world, lively());
  const std::vector<float> x{1.0F};
  const Round round{.id = {}, .arms = {{.user = UserId{0}, .features = {x, 1}}}};
  expect_error(ErrorKind::kInput, "all 4 features", [&] { pair.device.choose(round); });
}

TEST(DeviceMcnb, DrawsTheNumbersOfRng) {
  Rng rng(1, Stream::kTest);
  for (int trial = 0; trial < 20'000; ++trial) {
    const RngFamily family(Rng(static_cast<std::uint64_t>(trial / 100), Stream::kMetaDraw));
    const std::uint32_t member = rng.bits32();
    // Large bounds make a second draw likely.
    const std::uint32_t bound = trial % 2 == 0 ? 1 + rng.bits32() % 1000 : rng.bits32() | 1U;
    const std::uint32_t key[2] = {family.key()[0], family.key()[1]};
    ASSERT_EQ(device::below(key, member, bound), family.member(member).below(bound));
  }
}

TEST(DeviceMcnb, MadeUsersPlayAsTheCpuDoes) {
  if (!has_fused_kernels()) {
    GTEST_SKIP() << "this instruction set has no fused multiply-add";
  }
  struct Made {
    World world;
    std::uint64_t width;
    std::uint64_t rounds;
  };
  std::vector<Made> all{
      {{.features = 10, .arms = 10, .users = 1500}, 100, 6},
      {{.features = 2, .arms = 3, .users = 1024 * (device::kFewChunks + 1)}, 3, 2}};
  if (device::test_on_cuda() && !device::test_few_rounds()) {  // so many that a GPU takes more of
    all.push_back({{.features = 2, .arms = 3, .users = 400'000}, 3, 2});  // them at a time
  }
  for (const auto& [world, width, rounds] : all) {
    SCOPED_TRACE(world.users);
    const McnbOptions options = with(mcnb_preset("algorithm"), [width = width](auto& o) {
      o.gamma = 0.1;
      o.network.width = width;
    });
    Pair pair(world, options);
    pair.device.make_users(5, 1, 2.0F);
    cases::load(pair.cpu, cases::saved(pair.device));
    Session on_cpu(world, Arrival::kAtOnce);
    Session on_device(world, Arrival::kAtOnce);
    on_cpu.play(pair.cpu, 0, device::test_rounds(rounds));
    on_device.play(pair.device, 0, device::test_rounds(rounds));
    EXPECT_TRUE(cases::same_bits(on_device.values(), on_cpu.values()));
    ASSERT_NO_FATAL_FAILURE(expect_same_state(world, options, pair));
  }
}

TEST(DeviceMcnb, WithoutAGpuCudaIsRefusedWithTheRemedy) {
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of({.features = 4, .arms = 3, .users = 4}, threads);
  setup.device = Device::kCuda;
  const std::string what = device::cuda_description();
  if (what.starts_with("NVIDIA")) {
    GTEST_SKIP() << "this machine has " << what;
  }
  try {
    make_policy(parse_policy("mcnb:preset=algorithm"), setup);
    FAIL() << "no GPU is needed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device=cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace mcnb::device_mcnb_test
