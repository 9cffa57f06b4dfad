#include "bench/scale.h"

#include <fmt/core.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/random.h"
#include "mcnb/base/text_table.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kGroups = 5;
// Users are visited in the order of a multiplication by this prime, modulo their number.
constexpr std::uint64_t kStep = 2'654'435'761;
// The growth of the number of rewards over which rounds are timed: the default from one fit of
// `hierarchical` to the next.
constexpr double kPeriod = 1.4;
constexpr std::uint64_t kMostWorlds = 1000;

// Users in a few groups, each group with coefficients of its own.
class ScaleWorld {
 public:
  ScaleWorld(const ScaleBenchOptions& options, std::uint64_t users, std::uint64_t seed)
      : options_(options), rng_(seed, Stream::kBenchmark, users) {
    for (std::uint64_t i = 0; i < kGroups * options.features; ++i) {
      coefficients_.push_back(rng_.normal());
    }
    for (std::uint64_t i = 0; i < users * options.user_features; ++i) {
      user_features_.push_back(static_cast<float>(rng_.normal()));
    }
    values_.resize(options.arms * options.features);
    round_.arms.resize(options.arms);
  }

  std::span<const float> user_features() const { return user_features_; }

  // A round of arms of length one. Borrowed until the next call.
  const Round& next_round(std::uint64_t user) {
    round_.id = RoundId{count_++};
    for (std::uint64_t k = 0; k < options_.arms; ++k) {
      const std::span<float> arm =
          std::span(values_).subspan(k * options_.features, options_.features);
      double squares = 0.0;
      for (float& value : arm) {
        value = static_cast<float>(rng_.normal());
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
      for (float& value : arm) {
        value = static_cast<float>(static_cast<double>(value) / std::sqrt(squares));
      }
      round_.arms[k] = {.index = ArmIndex{static_cast<std::uint32_t>(k)},
                        .user = UserId{static_cast<std::uint32_t>(user)},
                        .features = {arm}};
    }
    return round_;
  }

  float reward(const Arm& arm) {
    const std::uint64_t group = index(arm.user) % kGroups;
    double sum = 0.1 * rng_.normal();
    for (std::uint64_t i = 0; i < options_.features; ++i) {
      sum += coefficients_[group * options_.features + i] *
             static_cast<double>(arm.features.values[i]);
    }
    return static_cast<float>(sum);
  }

 private:
  const ScaleBenchOptions& options_;
  Rng rng_;
  std::vector<double> coefficients_;
  std::vector<float> user_features_;
  std::vector<float> values_;
  Round round_;
  std::uint64_t count_ = 0;
};

struct Growth {
  std::string policy;
  std::uint64_t users = 0;
  std::uint64_t rewards = 0;  // in all worlds
  std::uint64_t rounds = 0;   // timed
  double learning = 0.0;      // seconds of rewards outside timed rounds
  double playing = 0.0;       // seconds of timed rounds
  std::uint64_t fits = 0;
  double fitting = 0.0;  // seconds of all fits
  double longest_fit = 0.0;
  double counted_bytes = 0.0;  // of one world at its end
  double resident_bytes = 0.0;

  double per_round() const {
    return playing / static_cast<double>(std::max(rounds, std::uint64_t{1}));
  }
  double per_reward() const {
    return learning / static_cast<double>(std::max(rewards - rounds, std::uint64_t{1}));
  }
  double fits_per_reward() const { return fitting / static_cast<double>(rewards); }
};

// The processor time of this process: a fit takes seconds, and other programs shall not count.
double used_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void run_due_fit(Policy& policy, Growth& growth) {
  if (!policy.fit_is_due()) {
    return;
  }
  const double begin = used_seconds();
  const std::shared_ptr<BackgroundFit> fit = policy.begin_fit();
  fit->run();
  policy.finish_fit(fit->result());
  const double spent = used_seconds() - begin;
  ++growth.fits;
  growth.fitting += spent;
  growth.longest_fit = std::max(growth.longest_fit, spent);
}

// Fills one world with rewards.
void grow(ThreadPool& threads, const PolicySpec& spec, const ScaleBenchOptions& options,
          Growth& growth, std::uint64_t seed) {
  malloc_trim(0);
  const std::uint64_t users = growth.users;
  ScaleWorld world(options, users, seed);
  const auto resident_before = static_cast<double>(resident_memory());
  const std::unique_ptr<Policy> policy =
      make_policy(spec, {.inputs = static_cast<std::uint32_t>(options.features),
                         .users = users,
                         .seed = seed,
                         .threads = &threads,
                         .user_features = world.user_features(),
                         .user_feature_count = options.user_features,
                         .fits_beside = true});
  const std::uint64_t rewards = users * options.samples;
  const auto timed_from = static_cast<std::uint64_t>(static_cast<double>(rewards) / kPeriod);
  const std::uint64_t every = std::max<std::uint64_t>(
      1, (rewards - timed_from) / std::max(options.rounds, std::uint64_t{1}));
  for (std::uint64_t i = 0; i < rewards; ++i) {
    const Round& round = world.next_round((i + i / users) * kStep % users);
    const bool is_timed = i >= timed_from && i % every == 0;
    const double begin = used_seconds();
    const Arm& arm = round.arms[is_timed ? index(policy->choose(round)) : 0];
    const double chosen = used_seconds();
    const float reward = world.reward(arm);
    const double learning = used_seconds();
    policy->learn(round.id, arm, reward);
    const double spent = used_seconds() - learning;
    growth.rounds += is_timed ? 1 : 0;
    (is_timed ? growth.playing : growth.learning) += spent + (is_timed ? chosen - begin : 0.0);
    run_due_fit(*policy, growth);
  }
  growth.rewards += rewards;
  growth.counted_bytes = static_cast<double>(policy->memory_bytes());
  malloc_trim(0);
  growth.resident_bytes = static_cast<double>(resident_memory()) - resident_before;
}

Growth measure(ThreadPool& threads, const PolicySpec& spec, std::uint64_t users,
               const ScaleBenchOptions& options) {
  Growth growth{.policy = spec.label, .users = users};
  for (std::uint64_t seed = 1; seed <= kMostWorlds; ++seed) {
    grow(threads, spec, options, growth, seed);
    // The clock and the caches settle within some thousand rounds.
    if (growth.rounds >= std::min<std::uint64_t>(options.rounds, 20'000)) {
      break;
    }
  }
  return growth;
}

std::string microseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e6); }

void print_growths(const ScaleBenchOptions& options, const std::vector<Growth>& growths,
                   Display& display) {
  TextTable table({"policy", "users", "rewards", "timed rounds", "us/reward", "us/round",
                   "fits us/reward", "us/round with fits", "ratio", "ratio with fits", "fits",
                   "longest fit s", "bytes/user", "resident bytes/user"});
  const Growth* first = nullptr;
  for (const Growth& growth : growths) {
    first = first == nullptr || first->policy != growth.policy ? &growth : first;
    const double all = growth.per_round() + growth.fits_per_reward();
    const auto users = static_cast<double>(growth.users);
    table.add_row({growth.policy, std::to_string(growth.users), std::to_string(growth.rewards),
                   std::to_string(growth.rounds), microseconds(growth.per_reward()),
                   microseconds(growth.per_round()), microseconds(growth.fits_per_reward()),
                   microseconds(all),
                   fmt::format("{:.2f}", growth.per_round() / first->per_round()),
                   fmt::format("{:.2f}", all / (first->per_round() + first->fits_per_reward())),
                   std::to_string(growth.fits), fmt::format("{:.3f}", growth.longest_fit),
                   fmt::format("{:.0f}", growth.counted_bytes / users),
                   fmt::format("{:.0f}", growth.resident_bytes / users)});
  }
  display.say("\n");
  display.show("scale", table, table);
  display.say(
      "\nall times are processor time\nus/round: choose and learn, with the learner's part "
      "computed again after a fit\n"
      "fits: of all rewards; their time is shared out among them\n"
      "resident: what the system says; of few users it says little\n");
  const std::filesystem::path path = std::filesystem::path(options.output) / "bench-scale.csv";
  write_file(path, table.csv());
  display.say(fmt::format("table: {}\n", path.string()));
}

}  // namespace

void bench_scale(const ScaleBenchOptions& options, Display& display) {
  for (const std::uint64_t users : options.users) {
    require_within("users", users, 5, 100'000'000);
  }
  require_within("samples", options.samples, 1, 100'000);
  require_within("features", options.features, 2, 100'000);
  require_within("user-features", options.user_features, 0, 10'000);
  require_within("arms", options.arms, 1, 100'000);
  require_within("rounds", options.rounds, 1, 100'000'000);
  require_within("threads", options.threads, 1, ThreadPool::kMaxThreads);
  const std::vector<PolicySpec> policies = parse_policies(options.policies);
  make_output_folder(options.output);
  ThreadPool threads(static_cast<std::size_t>(options.threads));
  display.say(fmt::format("{} rewards of each user, {} features, {} arms, {} threads, {}\n",
                          options.samples, options.features, options.arms, options.threads,
                          kernels::simd_target()));
  std::vector<Growth> growths;
  for (const PolicySpec& spec : policies) {
    for (const std::uint64_t users : options.users) {
      fmt::print(stderr, "{}: {} users ...\n", spec.label, users);
      growths.push_back(measure(threads, spec, users, options));
    }
  }
  print_growths(options, growths, display);
}

}  // namespace mcnb::bench
