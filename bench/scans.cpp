#include "bench/scans.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "bench/limits.h"
#include "bench/report.h"
#include "bench/spread_users.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kScanWarmUpRounds = 3;
constexpr std::uint64_t kCompared = 20'000;  // users whose round others are compared with
// Users of ten groups agree with their group, and seldom with others, about an arm.
constexpr std::uint64_t kScanGroups = 10;
constexpr double kGroupDeviation = 4.0;  // of f over the groups; users agree within 0.24

// The times of a round, in seconds, and what it read.
struct ScanTiming {
  std::uint64_t users;
  Scan scan;
  double visited = 0.0;  // learners of a decision
  double share = 0.0;    // of all learners, in the cluster of an arm
  double clustering = 0.0;
  double adaptation = 0.0;
  double training = 0.0;
  double round = 0.0;
  double processor = 0.0;  // of all threads together
  double limit = 0.0;      // processor time to read the parameters of the visited learners
  std::size_t memory = 0;
};

McnbOptions options_with(Scan scan) {
  McnbOptions options = mcnb_preset("default");
  options.scan = scan;
  return options;
}

struct OwnRound {
  std::vector<std::vector<float>> features;
  Round round;
};

OwnRound draw_round(std::uint64_t id, std::uint64_t users) {
  Rng rng(5, Stream::kBenchmark, id);
  OwnRound own;
  own.round.id = RoundId{id};
  const UserId user{static_cast<std::uint32_t>(rng.below(users))};
  for (std::uint32_t arm = 0; arm < kArms; ++arm) {
    own.features.push_back(unit_vector(rng));
    own.round.arms.push_back({.index = ArmIndex{arm}, .user = user});
    own.round.arms.back().features = {own.features.back(), 0};
  }
  return own;
}

Mcnb make_scanner(ThreadPool& threads, Scan scan, std::uint64_t users) {
  Mcnb policy(options_with(scan), {.inputs = kFeatures,
                                   .users = static_cast<std::size_t>(users),
                                   .seed = 1,
                                   .threads = &threads});
  Rng rng(2, Stream::kBenchmark);
  fill_users(policy, rng);
  spread_users(policy.user_learners(), kGroupDeviation, kScanGroups);
  return policy;
}

// With fewer users than a decision asks for, both scans must give the same scores.
void check_scans(ThreadPool& threads) {
  constexpr std::uint64_t kFew = 150;
  Mcnb all = make_scanner(threads, Scan::kAll, kFew);
  Mcnb sampled = make_scanner(threads, Scan::kSampled, kFew);
  for (std::uint64_t id = 0; id < 20; ++id) {
    const OwnRound own = draw_round(id, kFew);
    const std::vector<Score> expected = all.scores(own.round);
    const std::vector<Score> found = sampled.scores(own.round);
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      if (found[arm].value != expected[arm].value ||
          found[arm].cluster_size != expected[arm].cluster_size) {
        throw Error(ErrorKind::kSystem,
                    fmt::format("benchmark: round {}, arm {}: scan=sampled has the score {}, "
                                "scan=all {}",
                                id, arm, found[arm].value, expected[arm].value));
      }
    }
  }
}

// The estimated sizes of clusters must be near the exact ones: within six standard deviations.
void check_estimate(Mcnb& policy, const OwnRound& own) {
  const Score score = policy.scores(own.round)[0];
  const std::size_t exact_size = policy.cluster(own.round.arms[0])->size();
  const ClusterSample& sample = *score.cluster_sample;
  const double error = static_cast<double>(score.cluster_size) / static_cast<double>(exact_size);
  const double deviation = 1.0 / std::sqrt(static_cast<double>(sample.found));
  if (sample.visited < policy.user_count() && std::abs(error - 1.0) > 6.0 * deviation) {
    throw Error(ErrorKind::kSystem,
                fmt::format("benchmark: a cluster of {} learners is estimated to have {}",
                            exact_size, score.cluster_size));
  }
}

// Measures how many learners the decisions about the next rounds visit, and how large the clusters
// of their arms are, on average.
void measure_walks(Mcnb& policy, std::uint64_t rounds, ScanTiming& timing) {
  timing.visited = 0.0;
  for (std::uint64_t id = 0; id < rounds; ++id) {
    std::size_t most = 0;
    const OwnRound own = draw_round(kScanWarmUpRounds + rounds + id, policy.user_count());
    for (const Score& score : policy.scores(own.round)) {
      most = std::max(most, score.cluster_sample->visited);
      timing.share += static_cast<double>(score.cluster_size) /
                      static_cast<double>(policy.user_count() * kArms * rounds);
    }
    timing.visited += static_cast<double>(most) / static_cast<double>(rounds);
  }
}

// The processor time to read the parameters of so many learners: of all in their order, or of
// random ones, which are others in every repetition.
double seconds_to_read(ThreadPool& threads, const NetworkPool& pool, double visited, Scan scan) {
  const auto count = static_cast<std::size_t>(visited);
  std::vector<const float*> blocks(count);
  const std::size_t floats = pool.shape().parameter_count();
  Rng rng(7, Stream::kBenchmark);
  double best = 1e30;
  for (int repetition = 0; repetition < 20; ++repetition) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t learner = scan == Scan::kAll ? i : rng.below(pool.user_count());
      blocks[i] = pool.parameters(UserId{static_cast<std::uint32_t>(learner)}).data();
    }
    const double begin = processor_seconds();
    read_blocks(threads, blocks, floats);
    best = std::min(best, processor_seconds() - begin);
  }
  return best;
}

ScanTiming time_scan(ThreadPool& threads, Scan scan, std::uint64_t users, std::uint64_t rounds) {
  Mcnb policy = make_scanner(threads, scan, users);
  Rng rewards(3, Stream::kBenchmark);
  std::vector<double> clustering;
  std::vector<double> adaptation;
  std::vector<double> training;
  std::vector<double> whole;
  std::vector<double> processor;
  for (std::uint64_t id = 0; id < kScanWarmUpRounds + rounds; ++id) {
    const OwnRound own = draw_round(id, users);
    const PartSeconds before = *policy.part_seconds();
    const double begin = now_seconds();
    const double processor_begin = processor_seconds();
    const ArmIndex arm = policy.choose(own.round);
    policy.learn(own.round.id, own.round.arms[index(arm)], rewards.chance(0.5) ? 1.0F : 0.0F);
    const double seconds = now_seconds() - begin;
    const double processor_taken = processor_seconds() - processor_begin;
    const PartSeconds after = *policy.part_seconds();
    if (id >= kScanWarmUpRounds) {
      clustering.push_back(after.clustering - before.clustering);
      adaptation.push_back(after.adaptation - before.adaptation);
      training.push_back(after.training - before.training);
      whole.push_back(seconds);
      processor.push_back(processor_taken);
    }
  }
  ScanTiming timing{.users = users, .scan = scan};
  timing.visited = static_cast<double>(users);
  if (scan == Scan::kSampled) {
    measure_walks(policy, rounds, timing);
    check_estimate(policy, draw_round(kScanWarmUpRounds + 2 * rounds, users));
  }
  timing.clustering = median(clustering);
  timing.adaptation = median(adaptation);
  timing.training = median(training);
  timing.round = median(whole);
  timing.processor = median(processor);
  timing.memory = policy.memory_bytes();
  timing.limit = seconds_to_read(threads, policy.user_learners(), timing.visited, scan);
  return timing;
}

void print_scans(const std::vector<ScanTiming>& timings, std::uint64_t rounds,
                 const std::string& output, Display& display) {
  const auto round_of = [&](Scan scan, std::uint64_t users) -> std::optional<double> {
    const auto found = std::ranges::find_if(timings, [&](const ScanTiming& timing) {
      return timing.scan == scan && timing.users == users;
    });
    return found == timings.end() ? std::nullopt : std::optional(found->processor);
  };
  TextTable shown({"users", "scan", "cluster", "visited", "clustering", "adaptation", "training",
                   "round", "processor", "limit", "all takes", "20,000 users take", "memory"});
  TextTable csv({"users", "scan", "visited", "clustering_seconds", "adaptation_seconds",
                 "training_seconds", "round_seconds", "processor_seconds", "limit_seconds",
                 "memory_bytes"});
  for (const ScanTiming& timing : timings) {
    const char* const scan = timing.scan == Scan::kAll ? "all" : "sampled";
    const auto beside = [&](const std::optional<double>& other) {
      return other ? fmt::format("{:.3g} x", *other / timing.processor) : std::string();
    };
    shown.add_row(
        {std::to_string(timing.users), scan, timing.scan == Scan::kAll ? "" : percent(timing.share),
         fmt::format("{:.0f}", timing.visited), milliseconds(timing.clustering),
         milliseconds(timing.adaptation), milliseconds(timing.training), milliseconds(timing.round),
         milliseconds(timing.processor), percent(timing.limit / timing.processor),
         beside(round_of(Scan::kAll, timing.users)), beside(round_of(timing.scan, kCompared)),
         gibibytes(timing.memory)});
    csv.add_row({std::to_string(timing.users), scan, exact(timing.visited),
                 exact(timing.clustering), exact(timing.adaptation), exact(timing.training),
                 exact(timing.round), exact(timing.processor), exact(timing.limit),
                 std::to_string(timing.memory)});
  }
  display.say("\n");
  display.show("scans", shown, csv);
  display.say(fmt::format(
      "\nPreset default, decide and learn, medians of {} rounds. visited: learners that a "
      "decision\n"
      "evaluates, on average. processor: time of all threads together in the round. limit: the\n"
      "processor time that it takes to read the parameters of so many learners, all in their\n"
      "order or random ones, as a share of it (measured in this run). all takes, 20,000 users\n"
      "take: the processor time of scan=all, and of 20,000 users, divided by this one.\n",
      rounds));
  const std::filesystem::path path = std::filesystem::path(output) / "bench-scans.csv";
  write_file(path, csv.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
  std::fflush(stdout);
}

}  // namespace

void compare_scans(ThreadPool& threads, std::span<const std::uint64_t> users, std::uint64_t rounds,
                   const std::string& output, Display& display) {
  check_scans(threads);
  std::vector<ScanTiming> timings;
  for (const std::uint64_t count : users) {
    if (!have_room_for(count)) {
      continue;
    }
    for (const Scan scan : {Scan::kAll, Scan::kSampled}) {
      fmt::print(stderr, "{} users, scan={} ...\n", count, scan == Scan::kAll ? "all" : "sampled");
      timings.push_back(time_scan(threads, scan, count, rounds));
    }
  }
  print_scans(timings, rounds, output, display);
}

}  // namespace mcnb::bench
