#include "bench/policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "bench/limits.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/environment/synthetic.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb::bench {
namespace {

constexpr std::size_t kFewestForMedian = 50;  // rounds, early and late
constexpr std::uint64_t kCatalogue = 1000;    // items, if items repeat
constexpr std::uint64_t kPeerFeatures = 10;

struct World {
  std::uint64_t users;
  std::uint64_t features;
  std::uint64_t items = 0;  // of the catalogue; 0: fresh items in every round
};

// With kPeerFeatures this is the world that the peers in bench/peers/policies.py play in.
SyntheticOptions world_options(const World& world) {
  SyntheticOptions chosen;
  chosen.users = world.users;
  chosen.clusters = 5;
  chosen.features = world.features;
  chosen.arms = 10;
  chosen.items = world.items;
  chosen.reward = RewardShape::kLinear;
  chosen.gap = 0.0;
  chosen.noise = RewardNoise::kGaussian;
  return chosen;
}

struct Timing {
  std::string policy;
  std::uint64_t users = 0;
  std::uint64_t features = 0;
  std::uint64_t rounds = 0;  // played
  double seconds = 0.0;      // of choose and learn
  double processor = 0.0;    // the same as processor time, of all threads together
  double early = 0.0;        // median of a round in the second tenth
  double late = 0.0;         // median of a round in the last tenth
  std::size_t memory_bytes = 0;
  StepCounts steps;
};

// The cost of reading the clock. It matters: some rounds take only ten times as long.
double clock_cost() {
  constexpr int kReads = 100'000;
  const double begin = now_seconds();
  for (int i = 1; i < kReads; ++i) {
    now_seconds();
  }
  return (now_seconds() - begin) / kReads;
}

// The median time of a round in the tenth of the run that begins at `from` tenths.
double median_of_tenth(const std::vector<double>& times, std::size_t from) {
  const std::size_t tenth = times.size() / 10;
  if (tenth < kFewestForMedian) {
    return 0.0;
  }
  const auto begin = times.begin() + static_cast<std::ptrdiff_t>(from * tenth);
  return median({begin, begin + static_cast<std::ptrdiff_t>(tenth)});
}

// The processor time of so many rounds without a policy.
double world_processor_seconds(const World& played, std::size_t rounds) {
  SyntheticWorld world(world_options(played), 1);
  const double begin = processor_seconds();
  for (std::size_t i = 0; i < rounds; ++i) {
    world.next_round();
    world.reward(ArmIndex{0});
  }
  return processor_seconds() - begin;
}

Timing time_policy(ThreadPool& threads, const PolicySpec& spec, const World& played,
                   const PolicyBenchOptions& options) {
  Timing timing{.policy = spec.label, .users = played.users, .features = played.features};
  if (played.items > 0) {
    timing.policy += fmt::format(" ({} items)", played.items);
  }
  SyntheticWorld world(world_options(played), 1);
  const PolicySetup setup{.inputs = world.inputs(),
                          .users = world.user_count(),
                          .seed = 1,
                          .threads = &threads,
                          .user_features = world.user_features(),
                          .user_feature_count = world.user_feature_count()};
  const std::unique_ptr<Policy> policy = make_experiment_policy(spec, setup, world);
  for (const StartDatum& datum : world.start_data()) {
    policy->start(datum.user, datum.sample);
  }
  const double of_the_clock = 2.0 * clock_cost();
  std::vector<double> times;
  const double processor_begin = processor_seconds();
  while (times.size() < options.rounds && timing.seconds < options.seconds) {
    const Round& round = world.next_round();
    const double choosing = now_seconds();
    const ArmIndex arm = policy->choose(round);
    const double chosen = now_seconds();
    const float reward = world.reward(arm);
    const double learning = now_seconds();
    policy->learn(round.id, round.arms[index(arm)], reward);
    const double spent = chosen - choosing + (now_seconds() - learning);
    times.push_back(std::max(0.0, spent - of_the_clock));
    timing.seconds += times.back();
  }
  timing.rounds = times.size();
  const double of_the_policy = processor_seconds() - processor_begin -
                               2.0 * of_the_clock * static_cast<double>(timing.rounds) -
                               world_processor_seconds(played, timing.rounds);
  timing.processor = std::max(0.0, of_the_policy);
  timing.early = median_of_tenth(times, 1);
  timing.late = median_of_tenth(times, 9);
  timing.memory_bytes = policy->memory_bytes();
  timing.steps = policy->steps();
  return timing;
}

// Every policy with its defaults, and the variants that the peers implement.
std::vector<PolicySpec> policies_to_time(const PolicyBenchOptions& options) {
  if (!options.policies.empty()) {
    return parse_policies(options.policies);
  }
  std::vector<PolicySpec> all;
  for (const PolicyHelp& help : policy_help()) {
    all.push_back(parse_policy(help.name));
    if (help.name == "linucb") {
      all.push_back(parse_policy("linucb:users=each"));
      all.push_back(parse_policy("linucb:users=hybrid"));
      all.push_back(parse_policy("linucb:users=hybrid:products=yes"));
    } else if (help.name == "cofiba") {
      all.push_back(parse_policy("cofiba:items=auto"));
    } else if (help.name == "hierarchical") {
      all.push_back(parse_policy("hierarchical:memory=no"));
    } else if (help.name == "mcnb") {
      all.push_back(parse_policy("mcnb:preset=experiments"));
    } else if (help.name == "neuucb-one") {
      all.back() = parse_policy("neuucb-one:matrix=diagonal");
      all.push_back(parse_policy("neuucb-one:matrix=full"));
    }
  }
  return all;
}

std::string microseconds(double seconds) {
  return seconds == 0.0 ? "-" : fmt::format("{:.1f}", seconds * 1e6);
}

void print_timings(const PolicyBenchOptions& options, const std::vector<Timing>& timings,
                   Display& display) {
  TextTable table({"policy", "users", "features", "rounds", "seconds", "rounds/s", "us/round",
                   "processor us", "early us", "late us", "memory", "training steps",
                   "adaptation steps"});
  for (const Timing& timing : timings) {
    const double rate = static_cast<double>(timing.rounds) / timing.seconds;
    table.add_row({timing.policy, std::to_string(timing.users), std::to_string(timing.features),
                   std::to_string(timing.rounds), fmt::format("{:.3f}", timing.seconds),
                   fmt::format("{:.0f}", rate), microseconds(1.0 / rate),
                   microseconds(timing.processor / static_cast<double>(timing.rounds)),
                   microseconds(timing.early), microseconds(timing.late),
                   fmt::format("{:.1f} MiB", static_cast<double>(timing.memory_bytes) / 0x1p20),
                   std::to_string(timing.steps.training), std::to_string(timing.steps.adaptation)});
  }
  display.say("\n");
  display.show("policies", table, table);
  display.say(
      "\nus/round: mean of all rounds with all their work, in microseconds\n"
      "processor us: the same as processor time, which other programs do not lengthen\n"
      "early, late us: the median round in the second and in the last tenth of the run\n");
  const std::filesystem::path path = std::filesystem::path(options.output) / "bench-policies.csv";
  write_file(path, table.csv());
  display.say(fmt::format("table: {}\n", path.string()));
}

// The name of our policy that a peer's row is compared with: the text before its colon.
const Timing* find_ours(const std::vector<Timing>& timings, const std::string& peer,
                        std::uint64_t users) {
  std::string name = peer.substr(0, peer.find(':'));
  if (const std::size_t space = name.find(' '); space != std::string::npos) {
    name = name.substr(0, space) + ":matrix=" + name.substr(space + 1);
  }
  for (const Timing& timing : timings) {
    if (timing.policy == name && timing.users == users && timing.features == kPeerFeatures) {
      return &timing;
    }
  }
  return nullptr;
}

void print_peers(const PolicyBenchOptions& options, const std::vector<Timing>& timings,
                 Display& display) {
  const std::string python = find_python_with_torch();
  if (python.empty()) {
    fmt::print(stderr, "no Python with torch here: the comparisons with scripts are left out\n");
    return;
  }
  fmt::print(stderr, "timing the NumPy and PyTorch scripts ...\n");
  TextTable table({"script", "users", "rounds", "seconds for 10000", "mcnb", "mcnb faster"});
  for (const PeerRow& row :
       run_peer(python, "policies.py",
                {"--users", std::to_string(options.peer_users), "--threads",
                 std::to_string(options.threads)},
                {"policy", "users", "rounds_measured"}, {"extrapolated_seconds_T10000"})) {
    const std::string& name = row.texts.at("policy");
    const double theirs = row.numbers.at("extrapolated_seconds_T10000");
    const Timing* ours = find_ours(timings, name, options.peer_users);
    const double seconds =
        ours == nullptr ? 0.0 : ours->seconds * 10'000.0 / static_cast<double>(ours->rounds);
    table.add_row({name, row.texts.at("users"), row.texts.at("rounds_measured"),
                   fmt::format("{:.2f}", theirs),
                   ours == nullptr ? "-" : fmt::format("{:.3f}", seconds),
                   ours == nullptr ? "-" : fmt::format("{:.0f} x", theirs / seconds)});
  }
  display.say("\n");
  display.show("scripts", table, table);
  const std::filesystem::path path =
      std::filesystem::path(options.output) / "bench-policies-scripts.csv";
  write_file(path, table.csv());
  display.say(fmt::format("\ntable: {}\n", path.string()));
}

}  // namespace

void bench_policies(const PolicyBenchOptions& options, Display& display) {
  for (const std::uint64_t users : options.users) {
    require_within("users", users, 5, 10'000'000);
  }
  for (const std::uint64_t features : options.features) {
    require_within("features", features, 2, 100'000);
  }
  require_within("rounds", options.rounds, 1, 100'000'000);
  require_within("threads", options.threads, 1, ThreadPool::kMaxThreads);
  require_within("peer-users", options.peer_users, 5, 100'000);
  const std::vector<PolicySpec> policies = policies_to_time(options);
  make_output_folder(options.output);
  ThreadPool threads(static_cast<std::size_t>(options.threads));
  display.say(fmt::format("policies in a linear world of 5 groups: 10 arms, {} threads, {}\n",
                          options.threads, kernels::simd_target()));
  std::vector<Timing> timings;
  for (const std::uint64_t users : options.users) {
    for (const std::uint64_t features : options.features) {
      for (const PolicySpec& spec : policies) {
        fmt::print(stderr, "{} users, {} features, {} ...\n", users, features, spec.label);
        timings.push_back(time_policy(threads, spec, {users, features}, options));
        if (spec.name == "cofiba" && resolved_options(spec).at("items") == "auto") {  // by id
          timings.push_back(time_policy(threads, spec, {users, features, kCatalogue}, options));
        }
      }
    }
  }
  print_timings(options, timings, display);
  if (options.peer) {
    print_peers(options, timings, display);
  }
}

}  // namespace mcnb::bench
