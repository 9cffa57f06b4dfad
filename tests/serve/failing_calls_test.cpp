// The real service while calls of the operating system fail (faults/failing_calls.cpp): what it
// acknowledged is there afterwards, and it says what failed instead of crashing.

#include <gtest/gtest.h>

#include <fmt/core.h>

#include "mcnb/base/random.h"
#include "tests/sanitizers.h"
#include "tests/serve/service_load.h"

namespace mcnb::failing_calls_test {
namespace {

using namespace service_load;

constexpr int kClients = 2;

struct Seen {
  int served = 0;  // lives in which the server answered
  int refused_to_start = 0;
};

std::vector<std::string> failing_variables(const fs::path& data, std::uint64_t seed, Rng& rng) {
  return {std::string("LD_PRELOAD=") + MCNB_FAILING_CALLS, "MCNB_FAIL_FOLDER=" + data.string(),
          fmt::format("MCNB_FAIL_SEED={}", seed),
          fmt::format("MCNB_FAIL_CALLS={}", 200 + rng.below(3000))};
}

// One life of the service on a failing disk. It ends by SIGTERM or SIGKILL.
void live(const fs::path& data, const std::vector<std::string>& arguments, int life, Rng& rng,
          Told& told, Seen& seen) {
  const std::uint64_t seed = test_seed() * 1'000'003 + static_cast<std::uint64_t>(life);
  ServerProgram server(data, arguments, served_binary(), failing_variables(data, seed, rng));
  std::uint16_t port = 0;
  try {
    port = server.port();
  } catch (const std::runtime_error&) {
    const ProgramOutcome outcome = server.wait();
    ASSERT_EQ(outcome.status, 1) << "life " << life << ": " << outcome.errors;
    ASSERT_FALSE(outcome.errors.empty());
    ++seen.refused_to_start;
    return;
  }
  ++seen.served;
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] { use_service(port, life, client, told, true); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20 + rng.below(150)));
  const bool in_order = rng.chance(0.5);
  server.program().signal(in_order ? SIGTERM : SIGKILL);
  for (std::thread& client : clients) {
    client.join();
  }
  const ProgramOutcome outcome = server.wait();
  if (in_order) {  // its last snapshot may have failed
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1)
        << "life " << life << " ended by a signal: " << outcome.errors;
  }
}

TEST(FailingCalls, NothingAcknowledgedIsLostWhileCallsOfTheSystemFail) {
  if (kSanitized) {
    GTEST_SKIP() << "the sanitizers' runtime must be loaded before any other library";
  }
  const TemporaryFolder folder;
  const fs::path data = folder / "data";
  put_file(folder / "config.toml", kSmallModel);
  const std::vector<std::string> arguments{"--config", (folder / "config.toml").string(),
                                           "--threads", "1"};
  Told told;
  Logged logged;
  Rng rng(test_seed() + 20, Stream::kTest);
  Seen seen;
  const auto lives = static_cast<int>(repeats("MCNB_LIVES", 12));
  for (int life = 0; life < lives && !testing::Test::HasFatalFailure(); ++life) {
    live(data, arguments, life, rng, told, seen);
    if (fs::exists(data / "mcnb.db") && (life % 25 == 24 || life < 12 || life == lives - 1)) {
      SCOPED_TRACE(life);
      expect_kept(told, logged, data);
      expect_verified(data);
    }
  }
  fmt::print("{} lives, {} of them ended at the start; {} decisions were acknowledged\n", lives,
             seen.refused_to_start, told.decisions.size());
  EXPECT_GT(seen.served, lives / 5);
  // A busy machine does little in a life, and some lives fail throughout.
  EXPECT_GT(told.decisions.size(), static_cast<std::size_t>(seen.served) / 2);
}

}  // namespace
}  // namespace mcnb::failing_calls_test
