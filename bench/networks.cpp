#include "bench/networks.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "bench/limits.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/numeric/network_pool.h"

namespace mcnb::bench {
namespace {

constexpr int kTurns = 5;  // the things compared take turns, so that noise meets all of them

// One case to time: n networks on `arms` arms, which share their features or have a block each.
struct Case {
  std::size_t users;
  std::uint32_t features;
  bool blocks;
};

struct Timing {
  Case which;
  double predict = 0.0;  // seconds
  double step = 0.0;
  double read = 0.0;          // seconds to read as many bytes as predict must
  double bytes = 0.0;         // bytes that predict must read
  double operations = 0.0;    // operations that predict must do
  double memory_ratio = 0.0;  // bytes held / bytes of parameters
  double peak = 0.0;          // operations per second

  double bandwidth_share() const { return read / predict; }
  double peak_share() const { return operations / predict / peak; }
};

struct PeerTiming {
  double seconds = 0.0;
  std::string formulation;
};
using PeerTimings = std::map<std::tuple<std::string, std::size_t, std::size_t>, PeerTiming>;

// f(x) by the textbook formula, in double precision.
double plain_prediction(std::span<const float> network, std::uint32_t width, const Features& x,
                        std::size_t inputs) {
  double value = 0.0;
  for (std::size_t unit = 0; unit < width; ++unit) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      sum += static_cast<double>(network[(x.offset + i) * width + unit]) * x.values[i];
    }
    value += std::max(sum, 0.0) * network[inputs * width + unit];
  }
  return value;
}

void check_answers(const NetworkPool& pool, std::span<const Features> arms,
                   const Predictions& predictions) {
  Rng rng(1, Stream::kBenchmark, 1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto user = static_cast<std::size_t>(rng.below(pool.user_count()));
    const auto arm = static_cast<std::size_t>(rng.below(arms.size()));
    const double expected =
        plain_prediction(pool.parameters(UserId{static_cast<std::uint32_t>(user)}),
                         pool.shape().width, arms[arm], pool.shape().inputs);
    const double found = predictions.row(arm)[user];
    if (!(std::abs(found - expected) <= 1e-4 * (1.0 + std::abs(expected)))) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("benchmark: user {}, arm {}: computed {}, the plain loop gives {}",
                              user, arm, found, expected));
    }
  }
}

Timing time_case(ThreadPool& threads, const NetworkBenchOptions& options, const Case& which) {
  const auto arm_count = static_cast<std::uint32_t>(options.arms);
  const NetworkShape shape{.inputs = which.blocks ? which.features * arm_count : which.features,
                           .width = static_cast<std::uint32_t>(options.width)};
  std::vector<float> start = random_network(shape, Initialisation::kPaper, 1);
  NetworkPool pool(shape, start);
  pool.add_users(which.users);
  std::vector<UserId> everyone(which.users);
  const std::size_t last_layer = shape.layer_offset(shape.depth);
  for (std::size_t user = 0; user < which.users; ++user) {
    everyone[user] = UserId{static_cast<std::uint32_t>(user)};
    start[last_layer + user % shape.width] += 1e-4F;  // no two users alike
    pool.set_parameters(everyone[user], start);
  }

  Rng rng(1, Stream::kBenchmark);
  std::vector<std::vector<float>> values(arm_count, std::vector<float>(which.features));
  std::vector<Features> arms;
  for (std::uint32_t arm = 0; arm < arm_count; ++arm) {
    for (float& value : values[arm]) {
      value = static_cast<float>(rng.normal() / std::sqrt(static_cast<double>(which.features)));
    }
    arms.push_back({values[arm], which.blocks ? arm * which.features : 0});
  }
  Predictions predictions;
  pool.predict(threads, arms, predictions);
  check_answers(pool, arms, predictions);

  Timing timing{.which = which};
  const auto parameters = static_cast<double>(shape.parameter_count() * which.users);
  timing.bytes = parameters * sizeof(float);
  timing.memory_ratio = static_cast<double>(pool.memory_bytes()) / timing.bytes;
  // An arm with a block uses only its rows of W_1, so all arms together read W_1 once.
  timing.operations = 2.0 * static_cast<double>(which.users * arm_count) *
                      static_cast<double>((which.features + 1) * shape.width);
  ReadStream stream(threads, static_cast<std::size_t>(timing.bytes));
  timing.predict = timing.step = timing.read = 1e30;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double seconds = options.seconds / kTurns;
    timing.peak = std::max(timing.peak, measure_fma_peak(threads, std::min(seconds, 0.05)));
    timing.read = std::min(timing.read, shortest(seconds, [&] { stream.read_once(); }));
    timing.predict = std::min(timing.predict,
                              shortest(seconds, [&] { pool.predict(threads, arms, predictions); }));
    timing.step = std::min(timing.step, shortest(seconds, [&] {
                             pool.step(threads, everyone, {arms[0], 0.5F}, 1e-3F);
                           }));
  }
  timing.read *= timing.bytes / static_cast<double>(stream.bytes());
  return timing;
}

PeerTimings time_peer(const NetworkBenchOptions& options) {
  const std::string python = find_python_with_torch();
  if (python.empty()) {
    fmt::print(stderr,
               "no Python with torch here: the comparison with PyTorch is left out "
               "(Debian: python3-torch, libopenblas0-pthread)\n");
    return {};
  }
  PeerTimings timings;
  fmt::print(stderr, "timing PyTorch, up to {} users ...\n", options.peer_users);
  const std::vector<std::uint64_t> users = at_most(options.peer_users, options.users);
  if (users.empty()) {
    return {};
  }
  const std::vector<std::string> arguments{"--users",    joined(users),
                                           "--features", joined(options.features),
                                           "--width",    std::to_string(options.width),
                                           "--arms",     std::to_string(options.arms),
                                           "--threads",  std::to_string(options.threads),
                                           "--seconds",  fmt::format("{}", options.seconds),
                                           "--block"};
  for (const PeerRow& row : run_peer(python, "networks.py", arguments, {"operation", "formulation"},
                                     {"users", "features", "seconds"})) {
    timings[{row.texts.at("operation"), static_cast<std::size_t>(row.numbers.at("users")),
             static_cast<std::size_t>(row.numbers.at("features"))}] = {row.numbers.at("seconds"),
                                                                       row.texts.at("formulation")};
  }
  return timings;
}

void check_options(const NetworkBenchOptions& options) {
  for (const std::uint64_t users : options.users) {
    require_within("users", users, 1, 1'000'000'000);
  }
  for (const std::uint64_t features : options.features) {
    require_within("features", features, 1, 100'000);
  }
  require_within("width", options.width, 1, NetworkShape::kMaxWidth);
  require_within("arms", options.arms, 1, 10'000);
  require_within("threads", options.threads, 1, ThreadPool::kMaxThreads);
  if (!(options.seconds > 0.0) || options.seconds > 3600.0) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("--seconds: expected more than 0, at most 3600, got {}", options.seconds));
  }
}

std::string features_text(const Case& which) {
  return fmt::format("{}{}", which.features, which.blocks ? " block" : "");
}

TextTable our_table(const std::vector<Timing>& timings) {
  TextTable table({"users", "features", "predict-all", "ns/user", "GB/s", "of read", "GFLOP/s",
                   "of peak", "of limit", "step-all", "step/predict", "memory"});
  for (const Timing& timing : timings) {
    const auto users = static_cast<double>(timing.which.users);
    table.add_row({std::to_string(timing.which.users), features_text(timing.which),
                   milliseconds(timing.predict),
                   fmt::format("{:.0f}", timing.predict / users * 1e9),
                   fmt::format("{:.1f}", timing.bytes / timing.predict / 1e9),
                   percent(timing.bandwidth_share()),
                   fmt::format("{:.0f}", timing.operations / timing.predict / 1e9),
                   percent(timing.peak_share()),
                   percent(std::max(timing.bandwidth_share(), timing.peak_share())),
                   milliseconds(timing.step), fmt::format("{:.2f}", timing.step / timing.predict),
                   fmt::format("{:.3f}", timing.memory_ratio)});
  }
  return table;
}

std::optional<PeerTiming> find_peer(const PeerTimings& peer, const Case& which, std::string name,
                                    bool tiled) {
  name += which.blocks ? "-block" : "";
  name += tiled ? "-tiled" : "";
  const auto found = peer.find({name, which.users, which.features});
  return found == peer.end() ? std::nullopt : std::optional(found->second);
}

TextTable peer_table(const std::vector<Timing>& timings, const PeerTimings& peer) {
  TextTable table({"users", "features", "operation", "mcnb", "PyTorch batched", "mcnb faster", "by",
                   "PyTorch tiled", "mcnb faster", "by"});
  for (const Timing& timing : timings) {
    for (const auto& [name, ours] :
         {std::pair("predict", timing.predict), std::pair("step", timing.step)}) {
      std::vector<std::string> cells{std::to_string(timing.which.users),
                                     features_text(timing.which), name, milliseconds(ours)};
      for (const bool tiled : {false, true}) {
        const auto theirs = find_peer(peer, timing.which, name, tiled);
        cells.push_back(theirs ? milliseconds(theirs->seconds) : "-");
        cells.push_back(theirs ? fmt::format("{:.1f} x", theirs->seconds / ours) : "-");
        cells.push_back(theirs ? theirs->formulation : "-");
      }
      table.add_row(std::move(cells));
    }
  }
  return table;
}

TextTable csv_table(const NetworkBenchOptions& options, const std::vector<Timing>& timings,
                    const PeerTimings& peer) {
  std::vector<std::string> headings{"users",
                                    "features",
                                    "blocks",
                                    "width",
                                    "arms",
                                    "threads",
                                    "predict_seconds",
                                    "step_seconds",
                                    "read_seconds",
                                    "bytes",
                                    "operations",
                                    "peak_flops",
                                    "share_of_read_bandwidth",
                                    "share_of_fma_peak",
                                    "memory_ratio"};
  for (const char* name : {"predict", "step"}) {
    for (const char* sort : {"batched", "tiled"}) {
      headings.push_back(fmt::format("torch_{}_{}_seconds", name, sort));
      headings.push_back(fmt::format("torch_{}_{}_formulation", name, sort));
    }
  }
  TextTable table(std::move(headings));
  for (const Timing& timing : timings) {
    const Case& which = timing.which;
    std::vector<std::string> cells{std::to_string(which.users),
                                   std::to_string(which.features),
                                   which.blocks ? "1" : "0",
                                   std::to_string(options.width),
                                   std::to_string(options.arms),
                                   std::to_string(options.threads),
                                   exact(timing.predict),
                                   exact(timing.step),
                                   exact(timing.read),
                                   exact(timing.bytes),
                                   exact(timing.operations),
                                   exact(timing.peak),
                                   exact(timing.bandwidth_share()),
                                   exact(timing.peak_share()),
                                   exact(timing.memory_ratio)};
    for (const char* name : {"predict", "step"}) {
      for (const bool tiled : {false, true}) {
        const auto theirs = find_peer(peer, which, name, tiled);
        cells.push_back(theirs ? exact(theirs->seconds) : "");
        cells.push_back(theirs ? theirs->formulation : "");
      }
    }
    table.add_row(std::move(cells));
  }
  return table;
}

void print_ours(const NetworkBenchOptions& options, const std::vector<Timing>& timings,
                Display& display) {
  display.say("\n");
  display.show("networks", our_table(timings), csv_table(options, timings, {}));
  display.say(
      "\nof read: share of the read bandwidth at the same working-set size; of peak: share of the\n"
      "fused multiply-add peak; of limit: the nearer of the two. All measured in this run, in "
      "turns.\n"
      "memory: bytes held per byte of parameters of the users' networks; the shared start is one "
      "more.\n");
  for (const std::uint64_t features : options.features) {
    const Timing* small = nullptr;
    const Timing* large = nullptr;
    for (const Timing& timing : timings) {
      if (timing.which.features == features && !timing.which.blocks &&
          timing.which.users >= 20'000) {
        small = small == nullptr ? &timing : small;
        large = &timing;
      }
    }
    if (small != large) {
      const auto per_user = [](const Timing* timing) {
        return timing->predict / static_cast<double>(timing->which.users);
      };
      display.say(fmt::format(
          "growth, {} features: a user costs {:.2f} times as much at {} as at {} users\n", features,
          per_user(large) / per_user(small), large->which.users, small->which.users));
    }
  }
}

void print_peer(const NetworkBenchOptions& options, const std::vector<Timing>& timings,
                const PeerTimings& peer, Display& display) {
  if (!peer.empty()) {
    display.say("\n");
    display.show("networks beside PyTorch", peer_table(timings, peer),
                 csv_table(options, timings, peer));
    display.say(
        "\nbatched: PyTorch's fastest formulation over all networks at once. tiled: its fastest "
        "when\n"
        "cut by hand into pieces that fit the caches and shared out over threads in "
        "TorchScript.\n");
  }
}

}  // namespace

void bench_networks(const NetworkBenchOptions& options, Display& display) {
  check_options(options);
  ThreadPool threads(static_cast<std::size_t>(options.threads));
  make_output_folder(options.output);
  display.say(fmt::format("networks of width {}, {} arms, {} threads, {}\n", options.width,
                          options.arms, options.threads, kernels::simd_target()));
  std::vector<Case> cases;
  for (const std::uint64_t features : options.features) {
    for (const std::uint64_t users : options.users) {
      cases.push_back(
          {static_cast<std::size_t>(users), static_cast<std::uint32_t>(features), false});
    }
  }
  cases.push_back({10, 784, true});
  std::vector<Timing> timings;
  for (const Case& which : cases) {
    const double inputs = static_cast<double>(which.features) *
                          (which.blocks ? static_cast<double>(options.arms) : 1.0);
    const double bytes = static_cast<double>(which.users) * (inputs + 1.0) *
                         static_cast<double>(options.width) * sizeof(float);
    // Memory for the networks, the same again for the read stream, and the predictions.
    const double needed = 2.2 * bytes + 4.0 * static_cast<double>(which.users * options.arms);
    const auto available = static_cast<double>(available_memory());
    if (needed > available) {
      fmt::print(stderr, "{} users, {} features: left out, needs {:.1f} GiB, {:.1f} GiB are free\n",
                 which.users, which.features, needed / 0x1p30, available / 0x1p30);
      continue;
    }
    fmt::print(stderr, "{} users, {} features{} ...\n", which.users, which.features,
               which.blocks ? " in blocks" : "");
    timings.push_back(time_case(threads, options, which));
  }
  // The CSV is written before the peer starts, because the peer may take long or fail.
  print_ours(options, timings, display);
  const std::filesystem::path path = std::filesystem::path(options.output) / "bench-networks.csv";
  write_file(path, csv_table(options, timings, {}).csv());
  std::fflush(stdout);
  if (options.peer) {
    const PeerTimings peer = time_peer(options);
    print_peer(options, timings, peer, display);
    write_file(path, csv_table(options, timings, peer).csv());
  }
  display.say(fmt::format("\ntable: {}\n", path.string()));
}

}  // namespace mcnb::bench
