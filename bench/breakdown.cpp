#include "bench/breakdown.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "bench/limits.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/scans.h"
#include "bench/spread_users.h"
#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/environment/synthetic.h"

namespace mcnb::bench {
namespace {

constexpr double kDeviation = 1.8;  // of f over the users: P(|f - f'| <= 0.32) = 0.1
constexpr std::uint64_t kWarmUpRounds = 3;

// The times of a round and of its parts, in seconds.
struct Parts {
  double clustering = 0.0;
  double adaptation = 0.0;
  double training = 0.0;
  double round = 0.0;
};

struct Timing {
  std::uint64_t users;
  std::uint64_t meta_samples;
  double cluster_size = 0.0;
  Parts taken;                  // medians
  Parts limit;                  // time that memory alone needs for the data of each part
  std::size_t memory = 0;       // of the policy, as it reports
  std::size_t peak_memory = 0;  // of the whole program so far
};

struct PaperFigures {
  std::uint64_t users;
  Parts seconds;
};
// The paper's table of seconds per round, on a V100.
constexpr PaperFigures kPaper[] = {
    {500, {0.006, 0.003, 0.067, 0.076}},
    {5'000, {0.057, 0.002, 0.068, 0.127}},
    {10'000, {0.113, 0.003, 0.096, 0.212}},
    {20'000, {0.228, 0.003, 0.078, 0.309}},
};

using PeerTimings = std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, Parts>;

// Measurements of all timed rounds, from which medians are taken.
struct Samples {
  std::vector<double> clustering;
  std::vector<double> adaptation;
  std::vector<double> training;
  std::vector<double> round;
  double members = 0.0;  // of the chosen arms' clusters, in all
  double draws = 0.0;    // samples that adapted the meta-learner, in all
};

// Plays one round, and adds its numbers to the samples if it is timed.
void play_round(Mcnb& policy, std::uint64_t t, std::uint64_t users, Rng& rng, bool is_timed,
                Samples& samples) {
  const UserId user{static_cast<std::uint32_t>(rng.below(users))};
  Round round{.id = RoundId{t}, .arms = {}};
  std::vector<std::vector<float>> features;
  for (std::uint32_t arm = 0; arm < kArms; ++arm) {
    features.push_back(unit_vector(rng));
    round.arms.push_back({.index = ArmIndex{arm}, .user = user, .features = {features[arm]}});
  }
  const PartSeconds before = *policy.part_seconds();
  const StepCounts steps = policy.steps();
  const double begin = now_seconds();
  const ArmIndex arm = policy.choose(round);
  const double decided = now_seconds();
  const std::uint64_t adapted = policy.steps().adaptation - steps.adaptation;
  const std::size_t cluster_size = policy.cluster(round.arms[index(arm)])->size();
  const double resumed = now_seconds();
  policy.learn(round.id, round.arms[index(arm)], rng.chance(0.5) ? 1.0F : 0.0F);
  const double end = now_seconds();
  if (!is_timed) {
    return;
  }
  const PartSeconds after = *policy.part_seconds();
  samples.clustering.push_back(after.clustering - before.clustering);
  samples.adaptation.push_back(after.adaptation - before.adaptation);
  samples.training.push_back(after.training - before.training);
  samples.round.push_back(decided - begin + (end - resumed));
  samples.draws += static_cast<double>(adapted);
  samples.members += static_cast<double>(cluster_size);
}

// The time that memory alone needs for the data of each part.
Parts memory_limits(ThreadPool& threads, std::uint64_t users, double network_bytes,
                    double draws_per_round, double cluster_size) {
  const auto seconds_to_read = [&](double bytes) {
    ReadStream stream(threads, static_cast<std::size_t>(bytes));
    return shortest(0.2, [&] { stream.read_once(); }) * bytes / static_cast<double>(stream.bytes());
  };
  const auto count = static_cast<double>(users);
  Parts limit;
  limit.clustering = seconds_to_read(network_bytes * count + 2.0 * kArms * 4.0 * count);
  // Every draw reads the member's list of events, the event's reference, its slot and its features.
  limit.adaptation = seconds_to_read(draws_per_round * 1.1 * 4 * 64);
  // Networks are read and written.
  limit.training = seconds_to_read(2.0 * network_bytes * cluster_size);
  limit.round = limit.clustering + limit.adaptation + limit.training;
  return limit;
}

Timing time_rounds(ThreadPool& threads, const BreakdownOptions& options, std::uint64_t users,
                   std::uint64_t meta_samples) {
  McnbOptions chosen = mcnb_preset("algorithm");
  chosen.meta_samples = meta_samples;
  Mcnb policy(chosen, {.inputs = kFeatures,
                       .users = static_cast<std::size_t>(users),
                       .seed = 1,
                       .threads = &threads});
  Rng rng(2, Stream::kBenchmark);
  fill_users(policy, rng);
  spread_users(policy.user_learners(), kDeviation);
  Samples samples;
  for (std::uint64_t t = 0; t < kWarmUpRounds + options.rounds; ++t) {
    play_round(policy, t, users, rng, t >= kWarmUpRounds, samples);
  }
  const auto rounds = static_cast<double>(options.rounds);
  const double network_bytes =
      static_cast<double>(policy.user_learners().shape().parameter_count()) * sizeof(float);
  Timing timing{.users = users, .meta_samples = meta_samples};
  timing.cluster_size = samples.members / rounds;
  timing.taken = {median(samples.clustering), median(samples.adaptation), median(samples.training),
                  median(samples.round)};
  timing.memory = policy.memory_bytes();
  timing.peak_memory = peak_memory();
  timing.limit =
      memory_limits(threads, users, network_bytes, samples.draws / rounds, timing.cluster_size);
  return timing;
}

PeerTimings time_peer(const std::string& python, const BreakdownOptions& options) {
  PeerTimings timings;
  const std::vector<std::uint64_t> users = at_most(options.peer_users, options.users);
  if (users.empty()) {
    return timings;
  }
  fmt::print(stderr, "timing the same round in PyTorch, up to {} users ...\n", options.peer_users);
  const std::vector<std::string> arguments{"--users",        joined(users),
                                           "--meta-samples", joined(options.meta_samples),
                                           "--threads",      std::to_string(options.threads)};
  for (const PeerRow& row : run_peer(python, "round.py", arguments, {"form"},
                                     {"users", "meta_samples", "clustering_seconds", "meta_seconds",
                                      "training_seconds", "round_seconds"})) {
    const auto whole = [&](const char* name) {
      return static_cast<std::uint64_t>(row.numbers.at(name));
    };
    timings[{row.texts.at("form"), whole("users"), whole("meta_samples")}] = {
        row.numbers.at("clustering_seconds"), row.numbers.at("meta_seconds"),
        row.numbers.at("training_seconds"), row.numbers.at("round_seconds")};
  }
  return timings;
}

std::string samples_text(std::uint64_t samples) {
  return samples == 0 ? "all" : std::to_string(samples);
}

void add_row(TextTable& shown, TextTable& csv, const Timing& timing, const std::string& who,
             const Parts& parts) {
  const bool ours = who == "mcnb";
  const auto share = [&](double limit, double taken) {
    return ours ? percent(limit / taken) : "-";
  };
  shown.add_row({std::to_string(timing.users), samples_text(timing.meta_samples),
                 ours ? fmt::format("{:.0f}", timing.cluster_size) : "", who,
                 milliseconds(parts.clustering), share(timing.limit.clustering, parts.clustering),
                 milliseconds(parts.adaptation), share(timing.limit.adaptation, parts.adaptation),
                 milliseconds(parts.training), share(timing.limit.training, parts.training),
                 milliseconds(parts.round),
                 ours ? "" : fmt::format("{:.1f} x", parts.round / timing.taken.round),
                 ours ? gibibytes(timing.memory) : "", ours ? gibibytes(timing.peak_memory) : ""});
  const auto own = [&](std::string text) { return ours ? std::move(text) : std::string(); };
  csv.add_row({std::to_string(timing.users), std::to_string(timing.meta_samples), who,
               own(exact(timing.cluster_size)), exact(parts.clustering), exact(parts.adaptation),
               exact(parts.training), exact(parts.round), own(exact(timing.limit.clustering)),
               own(exact(timing.limit.adaptation)), own(exact(timing.limit.training)),
               own(std::to_string(timing.memory)), own(std::to_string(timing.peak_memory))});
}

void print_breakdown(const BreakdownOptions& options, const std::vector<Timing>& timings,
                     const PeerTimings& peer, Display& display) {
  TextTable shown({"users", "samples", "cluster", "who", "clustering", "limit", "adaptation",
                   "limit", "training", "limit", "round", "mcnb faster", "memory", "peak"});
  TextTable csv({"users", "meta_samples", "who", "cluster_size", "clustering_seconds",
                 "adaptation_seconds", "training_seconds", "round_seconds",
                 "clustering_limit_seconds", "adaptation_limit_seconds", "training_limit_seconds",
                 "memory_bytes", "peak_memory_bytes"});
  for (const Timing& timing : timings) {
    add_row(shown, csv, timing, "mcnb", timing.taken);
    for (const char* form : {"batched", "tiled"}) {
      const auto found = peer.find({form, timing.users, timing.meta_samples});
      if (found != peer.end()) {
        add_row(shown, csv, timing, fmt::format("PyTorch {}", form), found->second);
      }
    }
    for (const PaperFigures& paper : kPaper) {
      if (paper.users == timing.users) {
        add_row(shown, csv, timing, "paper, V100", paper.seconds);
      }
    }
  }
  display.say("\n");
  display.show("breakdown", shown, csv);
  display.say(fmt::format(
      "\nMedians of {} rounds. limit: the time that memory alone needs for the part's data, as a\n"
      "share of the time taken (read bandwidth at the same size, measured in this run).\n"
      "PyTorch batched: all users in one batch; tiled: cut by hand into pieces that fit the "
      "caches\n"
      "and shared out over threads in TorchScript.\n",
      options.rounds));
  const std::filesystem::path path = std::filesystem::path(options.output) / "bench-breakdown.csv";
  write_file(path, csv.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
  std::fflush(stdout);
}

// Checks a round against a plain computation: the cluster of an arm, and the estimate after one
// step of the meta-learner on the mean loss of all members' whole histories, which has no random
// draws.
void check_answers(ThreadPool& threads) {
  McnbOptions chosen = mcnb_preset("algorithm");
  chosen.meta_draw = MetaDraw::kAll;
  Mcnb policy(chosen, {.inputs = kFeatures, .users = 200, .seed = 1, .threads = &threads});
  Rng rng(3, Stream::kBenchmark);
  std::vector<std::vector<float>> xs;
  std::vector<float> rewards;
  for (std::uint32_t user = 0; user < 200; ++user) {
    xs.push_back(unit_vector(rng));
    rewards.push_back(rng.chance(0.5) ? 1.0F : 0.0F);
    policy.start(UserId{user}, {{xs.back()}, rewards.back()});
  }
  spread_users(policy.user_learners(), kDeviation);
  const std::vector<float> x = unit_vector(rng);
  const Round round{.id = RoundId{0}, .arms = {{.user = UserId{7}, .features = {x}}}};
  const NetworkShape& shape = policy.user_learners().shape();
  GradientFactors factors;
  const auto value = [&](std::span<const float> network, const std::vector<float>& at) {
    find_gradient(shape, network, {at}, factors);
    return factors.value;
  };
  const double gap = chosen.gamma * (chosen.nu - 1.0) / chosen.nu;
  const double own = value(policy.user_learners().parameters(UserId{7}), x);
  std::vector<std::uint32_t> members;
  for (std::uint32_t user = 0; user < 200; ++user) {
    if (std::abs(value(policy.user_learners().parameters(UserId{user}), x) - own) <= gap) {
      members.push_back(user);
    }
  }
  std::vector<float> adapted(policy.meta_learner().parameters().begin(),
                             policy.meta_learner().parameters().end());
  for (const std::uint32_t member : members) {
    const float error = value(policy.meta_learner().parameters(), xs[member]) - rewards[member];
    kernels::add_gradient(
        shape, adapted.data(), xs[member], 0, factors.activations.data(), factors.signals.data(),
        static_cast<float>(-chosen.eta_2 / static_cast<double>(members.size())) * error);
  }
  const double expected = value(adapted, x);
  const Score score = policy.scores(round)[0];
  if (score.cluster_size != members.size() || std::abs(score.estimate - expected) > 1e-4) {
    throw Error(ErrorKind::kSystem,
                fmt::format("benchmark: {} members and estimate {}, expected {} and {}",
                            score.cluster_size, score.estimate, members.size(), expected));
  }
}

// Seconds of a whole run with preset `experiments` in the synthetic environment.
double time_experiment(ThreadPool& threads, std::uint64_t rounds) {
  SyntheticOptions chosen;
  chosen.users = 50;
  chosen.features = kFeatures;
  chosen.arms = kArms;
  // These values are those of the PyTorch script.
  chosen.clusters = 5;
  chosen.items = 0;
  chosen.reward = RewardShape::kCosine;
  chosen.frequency = 3.0;
  chosen.gap = 0.0;
  chosen.noise = RewardNoise::kBernoulli;
  SyntheticWorld world(chosen, 1);
  Mcnb policy(
      mcnb_preset("experiments"),
      {.inputs = world.inputs(), .users = world.user_count(), .seed = 1, .threads = &threads});
  for (const StartDatum& datum : world.start_data()) {
    policy.start(datum.user, datum.sample);
  }
  double seconds = 0.0;
  for (std::uint64_t t = 0; t < rounds; ++t) {
    const Round& round = world.next_round();
    const double begin = now_seconds();
    const ArmIndex arm = policy.choose(round);
    seconds += now_seconds() - begin;
    const float reward = world.reward(arm);
    const double resumed = now_seconds();
    policy.learn(round.id, round.arms[index(arm)], reward);
    seconds += now_seconds() - resumed;
  }
  return seconds;
}

void print_experiment(ThreadPool& threads, const BreakdownOptions& options,
                      const std::string& python, Display& display) {
  fmt::print(stderr, "preset experiments, {} rounds ...\n", options.experiment_rounds);
  const double ours = time_experiment(threads, options.experiment_rounds);
  TextTable table({"preset experiments", "rounds", "seconds", "rounds/s", "mcnb faster"});
  const auto rounds = static_cast<double>(options.experiment_rounds);
  table.add_row({"mcnb", std::to_string(options.experiment_rounds), fmt::format("{:.2f}", ours),
                 fmt::format("{:.0f}", rounds / ours), ""});
  if (!python.empty()) {
    fmt::print(stderr, "timing the PyTorch script, one module per user ...\n");
    for (const PeerRow& row : run_peer(python, "experiments.py", {}, {"rounds_measured"},
                                       {"extrapolated_seconds_T10000"})) {
      const double theirs = row.numbers.at("extrapolated_seconds_T10000") * rounds / 10'000.0;
      table.add_row({"PyTorch script, extrapolated", row.texts.at("rounds_measured"),
                     fmt::format("{:.0f}", theirs), fmt::format("{:.1f}", rounds / theirs),
                     fmt::format("{:.0f} x", theirs / ours)});
    }
  }
  display.say("\n");
  display.show("experiments", table, table);
  const std::filesystem::path path =
      std::filesystem::path(options.output) / "bench-experiments.csv";
  write_file(path, table.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
  std::fflush(stdout);
}

void check_options(const BreakdownOptions& options) {
  for (const std::uint64_t users : options.users) {
    require_within("users", users, 1, 100'000'000);
  }
  for (const std::uint64_t samples : options.meta_samples) {
    require_within("meta-samples", samples, 0, 1'000'000'000);
  }
  require_within("threads", options.threads, 1, ThreadPool::kMaxThreads);
  require_within("rounds", options.rounds, 0, 1'000'000);
  require_within("scan-rounds", options.scan_rounds, 0, 1'000'000);
  require_within("experiment-rounds", options.experiment_rounds, 0, 10'000'000);
}

void time_breakdown(ThreadPool& threads, const BreakdownOptions& options, const std::string& python,
                    Display& display) {
  display.say(fmt::format(
      "rounds of M-CNB, preset algorithm: {} features, width {}, {} arms, {} threads, {}\n",
      kFeatures, kWidth, kArms, options.threads, kernels::simd_target()));
  check_answers(threads);
  std::vector<Timing> timings;
  for (const std::uint64_t users : options.users) {
    if (!have_room_for(users)) {
      continue;
    }
    for (const std::uint64_t samples : options.meta_samples) {
      fmt::print(stderr, "{} users, meta_samples {} ...\n", users, samples_text(samples));
      timings.push_back(time_rounds(threads, options, users, samples));
    }
  }
  print_breakdown(options, timings, python.empty() ? PeerTimings{} : time_peer(python, options),
                  display);
}

}  // namespace

void bench_breakdown(const BreakdownOptions& options, Display& display) {
  check_options(options);
  ThreadPool threads(static_cast<std::size_t>(options.threads));
  const std::string python = options.peer ? find_python_with_torch() : "";
  if (options.peer && python.empty()) {
    fmt::print(stderr, "no Python with torch here: the comparisons with PyTorch are left out\n");
  }
  make_output_folder(options.output);
  if (options.rounds > 0) {
    time_breakdown(threads, options, python, display);
  }
  if (options.scan_rounds > 0) {
    compare_scans(threads, options.users, options.scan_rounds, options.output, display);
  }
  if (options.experiment_rounds > 0) {
    print_experiment(threads, options, python, display);
  }
}

}  // namespace mcnb::bench
