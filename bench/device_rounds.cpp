#include "bench/device_rounds.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "bench/limits.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/spread_users.h"
#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device_mcnb.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb::bench {
namespace {

// Of f over the users: P(|f - f'| <= 0.178 * deviation) = 0.1. Steps of such networks are far from
// those that have to be damped.
constexpr double kDeviation = 0.18;
constexpr std::uint32_t kEventsAtFirst = 5;  // of every user
constexpr std::uint64_t kWarmUpRounds = 5;
constexpr std::uint64_t kProfiledRounds = 9;
constexpr const char* kScan = "scan";  // the part that reads all learners

// A kernel or a copy, by its name. Times are medians over the rounds.
struct Part {
  std::string name;
  bool is_copy = false;
  double count = 0.0;  // in a round
  std::vector<double> seconds;
};

struct DeviceTiming {
  std::uint64_t users = 0;
  double cluster_size = 0.0;
  double decide = 0.0;
  double learn = 0.0;
  double round = 0.0;
  double read = 0.0;  // a plain read of the learners
  std::vector<Part> parts;
  std::size_t memory = 0;  // of the GPU

  double seconds_of(const std::string& name) const {
    const auto found =
        std::ranges::find_if(parts, [&](const Part& part) { return part.name == name; });
    return found == parts.end() ? 0.0 : median(found->seconds);
  }
  double count(bool copies) const {
    double all = 0.0;
    for (const Part& part : parts) {
      all += part.is_copy == copies ? part.count : 0.0;
    }
    return all;
  }
  double of_the_gpu() const {
    double all = 0.0;
    for (const Part& part : parts) {
      all += median(part.seconds);
    }
    return all;
  }
};

struct DrawnRound {
  std::vector<std::vector<float>> features;
  Round round;
  float reward = 0.0F;
};

DrawnRound draw_round(std::uint64_t t, std::uint64_t users, Rng& rng) {
  DrawnRound drawn{.round = {.id = RoundId{t}, .arms = {}}};
  const UserId user{static_cast<std::uint32_t>(rng.below(users))};
  for (std::uint32_t arm = 0; arm < kArms; ++arm) {
    drawn.features.push_back(unit_vector(rng));
  }
  for (std::uint32_t arm = 0; arm < kArms; ++arm) {
    drawn.round.arms.push_back(
        {.index = ArmIndex{arm}, .user = user, .features = {drawn.features[arm]}});
  }
  drawn.reward = rng.chance(0.5) ? 1.0F : 0.0F;
  return drawn;
}

PolicySetup setup_of(std::uint64_t users, ThreadPool& threads) {
  return {.inputs = kFeatures,
          .users = static_cast<std::size_t>(users),
          .seed = 1,
          .threads = &threads,
          .device = Device::kCuda};
}

// Preset algorithm, with a gap such that a tenth of the users is near.
McnbOptions chosen_options() {
  McnbOptions options = mcnb_preset("algorithm");
  options.gamma = 0.178 * kDeviation * options.nu / (options.nu - 1.0);
  return options;
}

// Plays the same rounds on the CPU. Where the CPU has a fused multiply-add, all bits must agree.
void check_answers(ThreadPool& threads) {
  constexpr std::uint64_t kUsers = 200;
  const bool fused = kernels::simd_target().starts_with("avx");
  const McnbOptions options = chosen_options();
  Mcnb cpu(options, setup_of(kUsers, threads));
  DeviceMcnb device(options, setup_of(kUsers, threads));
  Rng rng(3, Stream::kBenchmark);
  for (std::uint32_t user = 0; user < kUsers; ++user) {
    const std::vector<float> x = unit_vector(rng);
    const Sample sample{{x}, rng.chance(0.5) ? 1.0F : 0.0F};
    cpu.start(UserId{user}, sample);
    device.start(UserId{user}, sample);
  }
  for (std::uint64_t t = 0; t < 50; ++t) {
    const DrawnRound drawn = draw_round(t, kUsers, rng);
    const std::vector<Score> expected = cpu.scores(drawn.round);
    const std::vector<Score> found = device.scores(drawn.round);
    for (std::size_t arm = 0; arm < expected.size(); ++arm) {
      const double difference = std::abs(found[arm].value - expected[arm].value);
      if (!(difference <= (fused ? 0.0 : 1e-4))) {
        throw Error(ErrorKind::kSystem,
                    fmt::format("benchmark: round {}, arm {}: the GPU computed {}, the CPU {}", t,
                                arm, found[arm].value, expected[arm].value));
      }
    }
    const Arm& arm = drawn.round.arms[index(highest(expected))];
    cpu.learn(drawn.round.id, arm, drawn.reward);
    device.learn(drawn.round.id, arm, drawn.reward);
  }
}

// Adds the kernels and copies since the last call to the parts of a round.
void add_parts(device::Rounds& rounds, std::vector<Part>& parts) {
  std::map<std::string, double> seconds;
  for (const device::PartTime& time : rounds.part_times()) {
    auto found =
        std::ranges::find_if(parts, [&](const Part& part) { return part.name == time.name; });
    if (found == parts.end()) {
      found = parts.insert(parts.end(), {.name = time.name, .is_copy = time.is_copy});
    }
    found->count += 1.0;
    seconds[time.name] += time.seconds;
  }
  for (Part& part : parts) {
    part.seconds.push_back(seconds[part.name]);
  }
}

void profile(DeviceMcnb& policy, Rng& rng, DeviceTiming& timing) {
  policy.rounds().set_profiling(true);
  for (std::uint64_t t = 0; t < kProfiledRounds; ++t) {
    const DrawnRound drawn = draw_round(1'000'000 + t, timing.users, rng);
    const std::vector<Score> scores = policy.scores(drawn.round);
    const ArmIndex arm = highest(scores);
    policy.learn(drawn.round.id, drawn.round.arms[index(arm)], drawn.reward);
    add_parts(policy.rounds(), timing.parts);
    timing.cluster_size += static_cast<double>(scores[index(arm)].cluster_size);
  }
  policy.rounds().set_profiling(false);
  timing.cluster_size /= kProfiledRounds;
  for (Part& part : timing.parts) {
    part.count /= kProfiledRounds;
  }
}

DeviceTiming time_rounds(ThreadPool& threads, std::uint64_t users, std::uint64_t rounds) {
  DeviceMcnb policy(chosen_options(), setup_of(users, threads));
  const double scale = std::sqrt(kDeviation * std::sqrt(static_cast<double>(kWidth)));
  policy.make_users(kEventsAtFirst, 1, static_cast<float>(scale));
  Rng rng(2, Stream::kBenchmark);
  std::vector<double> decide;
  std::vector<double> learn;
  std::vector<double> both;
  for (std::uint64_t t = 0; t < kWarmUpRounds + rounds; ++t) {
    const DrawnRound drawn = draw_round(t, users, rng);
    const double begin = now_seconds();
    const ArmIndex arm = policy.choose(drawn.round);
    const double decided = now_seconds();
    policy.learn(drawn.round.id, drawn.round.arms[index(arm)], drawn.reward);
    policy.rounds().wait();
    const double end = now_seconds();
    if (t >= kWarmUpRounds) {
      decide.push_back(decided - begin);
      learn.push_back(end - decided);
      both.push_back(end - begin);
    }
  }
  DeviceTiming timing{.users = users};
  timing.decide = median(decide);
  timing.learn = median(learn);
  timing.round = median(both);
  profile(policy, rng, timing);
  if (policy.moves_to_host() > 0) {
    throw Error(ErrorKind::kSystem, "benchmark: steps were damped on the CPU, and not timed well");
  }
  timing.memory = policy.rounds().memory_bytes();
  timing.read = policy.rounds().seconds_to_read();
  return timing;
}

struct PeerTiming {
  std::string form;
  double scan = 0.0;
  double round = 0.0;
};

// PyTorch's best form, by number of users.
std::map<std::uint64_t, PeerTiming> time_peer(const std::string& python,
                                              const BreakdownOptions& options) {
  std::map<std::uint64_t, PeerTiming> best;
  const std::vector<std::uint64_t> users = at_most(options.peer_users, options.users);
  if (python.empty() || users.empty()) {
    return best;
  }
  fmt::print(stderr, "timing the same round in PyTorch on the GPU, up to {} users ...\n",
             options.peer_users);
  for (const PeerRow& row :
       run_peer(python, "gpu_round.py",
                {"--users", joined(users), "--rounds", std::to_string(options.rounds)}, {"form"},
                {"users", "scan_seconds", "round_seconds"})) {
    PeerTiming& known = best[static_cast<std::uint64_t>(row.numbers.at("users"))];
    if (known.form.empty() || row.numbers.at("round_seconds") < known.round) {
      known = {row.texts.at("form"), row.numbers.at("scan_seconds"),
               row.numbers.at("round_seconds")};
    }
  }
  return best;
}

double learner_bytes(std::uint64_t users) {
  return static_cast<double>(users) * (kFeatures + 1) * kWidth * sizeof(float);
}

void print_rounds(const std::vector<DeviceTiming>& timings,
                  const std::map<std::uint64_t, PeerTiming>& peer, const std::string& output,
                  Display& display) {
  TextTable shown({"users", "cluster", "decide", "learn", "round", "GPU alone", "scan", "TB/s",
                   "of read", "kernels", "copies", "memory", "PyTorch", "form", "mcnb faster"});
  TextTable csv({"users", "cluster_size", "decide_seconds", "learn_seconds", "round_seconds",
                 "gpu_seconds", "scan_seconds", "read_seconds", "kernels", "copies", "memory_bytes",
                 "torch_form", "torch_scan_seconds", "torch_round_seconds"});
  for (const DeviceTiming& timing : timings) {
    const double scan = timing.seconds_of(kScan);
    const auto found = peer.find(timing.users);
    const bool has_peer = found != peer.end();
    shown.add_row(
        {std::to_string(timing.users), fmt::format("{:.0f}", timing.cluster_size),
         milliseconds(timing.decide), milliseconds(timing.learn), milliseconds(timing.round),
         milliseconds(timing.of_the_gpu()), milliseconds(scan),
         fmt::format("{:.2f}", learner_bytes(timing.users) / scan / 1e12),
         percent(timing.read / scan), fmt::format("{:.0f}", timing.count(false)),
         fmt::format("{:.0f}", timing.count(true)), gibibytes(timing.memory),
         has_peer ? milliseconds(found->second.round) : "-", has_peer ? found->second.form : "-",
         has_peer ? fmt::format("{:.1f} x", found->second.round / timing.round) : "-"});
    csv.add_row({std::to_string(timing.users), exact(timing.cluster_size), exact(timing.decide),
                 exact(timing.learn), exact(timing.round), exact(timing.of_the_gpu()), exact(scan),
                 exact(timing.read), exact(timing.count(false)), exact(timing.count(true)),
                 std::to_string(timing.memory), has_peer ? found->second.form : "",
                 has_peer ? exact(found->second.scan) : "",
                 has_peer ? exact(found->second.round) : ""});
  }
  display.say("\n");
  display.show("breakdown-cuda", shown, csv);
  display.say(
      "\nMedians. round: decide and learn, as a caller waits for them. GPU alone: the sum of the\n"
      "parts below. of read: the time of a plain read of all learners, measured in this run, as a\n"
      "share of the scan's. kernels, copies: launched in a round, as three graphs.\n");
  const std::filesystem::path path = std::filesystem::path(output) / "bench-breakdown-cuda.csv";
  write_file(path, csv.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
}

void print_parts(const std::vector<DeviceTiming>& timings, const std::string& output,
                 Display& display) {
  std::vector<std::string> headings{"part", "of", "in a round"};
  for (const DeviceTiming& timing : timings) {
    headings.push_back(fmt::format("{} users", timing.users));
  }
  TextTable table(headings);
  for (const Part& part : timings.front().parts) {
    std::vector<std::string> cells{part.name, part.is_copy ? "copy" : "kernel",
                                   fmt::format("{:.1f}", part.count)};
    for (const DeviceTiming& timing : timings) {
      cells.push_back(milliseconds(timing.seconds_of(part.name)));
    }
    table.add_row(std::move(cells));
  }
  display.say("\n");
  display.show("breakdown-cuda-parts", table, table);
  const std::filesystem::path path =
      std::filesystem::path(output) / "bench-breakdown-cuda-parts.csv";
  write_file(path, table.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
}

// Calls `time` for each number of users that the GPU has memory for.
template <class Time>
void for_each_size(const std::vector<std::uint64_t>& users, Time time) {
  for (const std::uint64_t count : users) {
    fmt::print(stderr, "{} users ...\n", count);
    try {
      time(count);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit) {
        throw;
      }
      fmt::print(stderr, "{} users: left out, {}\n", count, error.what());
    }
  }
}

// Adds the row of one number of networks to the table.
void time_networks(const NetworkBenchOptions& options, std::uint64_t users, std::uint64_t features,
                   TextTable& table) {
  const NetworkShape shape{.inputs = static_cast<std::uint32_t>(features),
                           .width = static_cast<std::uint32_t>(options.width)};
  const std::vector<float> start = random_network(shape, Initialisation::kPaper, 1);
  const std::unique_ptr<device::Rounds> rounds =
      device::make_cuda_rounds({.shape = shape,
                                .users = static_cast<std::size_t>(users),
                                .gap = 1e30F,  // everyone is a member, and takes the step
                                .meta_rate = 1e-3,
                                .rate = 1e-3F},
                               start);
  rounds->make_users(1, 1, 1.0F);
  Rng rng(1, Stream::kBenchmark);
  std::vector<std::vector<float>> values(options.arms, std::vector<float>(features));
  std::vector<device::PassArm> arms;
  for (std::vector<float>& x : values) {
    for (float& value : x) {
      value = static_cast<float>(rng.normal() / std::sqrt(static_cast<double>(features)));
    }
    arms.push_back({.learner = UserId{0}, .x = x});
  }
  rounds->set_profiling(true);
  DeviceTiming timing{.users = users};
  for (std::uint64_t turn = 0; turn < kProfiledRounds; ++turn) {
    rounds->pass(arms);
    rounds->begin_lesson(0, false, 0.5F);
    rounds->finish_lesson();
    add_parts(*rounds, timing.parts);
  }
  const double scan = timing.seconds_of(kScan);
  const double step = timing.seconds_of("step");
  const double bytes = static_cast<double>(shape.parameter_count() * users) * sizeof(float);
  const double operations = 2.0 * bytes / sizeof(float) * static_cast<double>(options.arms);
  table.add_row({std::to_string(users), std::to_string(features), milliseconds(scan),
                 fmt::format("{:.2f}", scan / static_cast<double>(users) * 1e9),
                 fmt::format("{:.2f}", bytes / scan / 1e12),
                 percent(rounds->seconds_to_read() / scan),
                 fmt::format("{:.0f}", operations / scan / 1e9), milliseconds(step),
                 fmt::format("{:.2f}", step / scan)});
}

}  // namespace

void time_rounds_on_device(const BreakdownOptions& options, const std::string& python,
                           Display& display) {
  ThreadPool threads(static_cast<std::size_t>(options.threads));
  check_answers(threads);
  display.say(fmt::format("rounds of M-CNB, preset algorithm: {} features, width {}, {} arms, {}\n",
                          kFeatures, kWidth, kArms, device::cuda_description()));
  std::vector<DeviceTiming> timings;
  for_each_size(options.users, [&](std::uint64_t users) {
    timings.push_back(time_rounds(threads, users, options.rounds));
  });
  if (timings.empty()) {
    return;
  }
  print_rounds(timings, time_peer(python, options), options.output, display);
  print_parts(timings, options.output, display);
}

void time_networks_on_device(const NetworkBenchOptions& options, Display& display) {
  require_within("arms", options.arms, 1, device::Rounds::kMostArms);
  require_within("width", options.width, 1, device::kMostWidth);
  TextTable table({"users", "features", "scan", "ns/user", "TB/s", "of read", "GFLOP/s", "step-all",
                   "step/scan"});
  for (const std::uint64_t features : options.features) {
    for_each_size(options.users,
                  [&](std::uint64_t users) { time_networks(options, users, features, table); });
  }
  display.say(fmt::format("networks of width {}, {} arms, {}\n\n", options.width, options.arms,
                          device::cuda_description()));
  display.show("networks-cuda", table, table);
  const std::filesystem::path path =
      std::filesystem::path(options.output) / "bench-networks-cuda.csv";
  write_file(path, table.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
}

}  // namespace mcnb::bench
