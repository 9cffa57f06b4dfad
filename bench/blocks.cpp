#include "bench/blocks.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/experiment/run/runner.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kCheckedRounds = 120;
constexpr double kTolerance = 1e-4;  // of a score, between the two ways

// A policy in an environment of its own, on one thread.
struct Player {
  Player(const EnvironmentSpec& spec, const std::string& text)
      : environment(make_environment(spec, kSeed)),
        policy(make_experiment_policy(fitted_to(spec, parse_policies(text)).front(),
                                      setup_for(*environment, kSeed, thread), *environment)) {}

  void set_bookkeeping(Bookkeeping bookkeeping) {
    dynamic_cast<Mcnb&>(*policy).meta_learner().set_bookkeeping(bookkeeping);
  }

  ThreadPool thread{1};
  std::unique_ptr<Environment> environment;
  std::unique_ptr<Policy> policy;
};

// Checks that both ways to adapt give the same scores.
void check_answers(const EnvironmentSpec& spec, Display& display) {
  Player player(spec, "mcnb");
  for (const StartDatum& datum : player.environment->start_data()) {
    player.policy->start(datum.user, datum.sample);
  }
  double largest = 0.0;
  for (std::uint64_t t = 0; t < kCheckedRounds; ++t) {
    const Round& round = player.environment->next_round();
    player.set_bookkeeping(Bookkeeping::kImplicit);
    const std::vector<Score> implicitly = player.policy->scores(round);
    player.set_bookkeeping(Bookkeeping::kExplicit);
    const std::vector<Score> explicitly = player.policy->scores(round);
    for (std::size_t i = 0; i < implicitly.size(); ++i) {
      largest = std::max(largest, std::abs(implicitly[i].value - explicitly[i].value));
    }
    const ArmIndex arm = player.policy->choose(round);
    player.policy->learn(round.id, round.arms[index(arm)], player.environment->reward(arm));
  }
  display.say(fmt::format("scores of both ways differ by at most {:.1e} in {} rounds\n", largest,
                          kCheckedRounds));
  if (!(largest <= kTolerance)) {
    throw Error(ErrorKind::kSystem,
                fmt::format("benchmark: the scores of the two ways to adapt differ by {}, expected "
                            "at most {}",
                            largest, kTolerance));
  }
}

// Seconds that memory alone needs for the features of all draws, if they are read once each.
double memory_limit(std::uint64_t draws, std::uint64_t rounds, std::uint32_t features) {
  const double event_bytes = 4.0 * features;
  ThreadPool thread(1);
  ReadStream stream(thread, static_cast<std::size_t>(event_bytes * static_cast<double>(rounds)));
  const double bandwidth =
      static_cast<double>(stream.bytes()) / shortest(0.2, [&] { stream.read_once(); });
  return static_cast<double>(draws) * event_bytes / bandwidth;
}

CellResult play_all(Player& player, std::uint64_t rounds) {
  RunControl control;
  return *play(*player.environment, *player.policy, rounds, control);
}

class Report {
 public:
  void add(const std::string& who, const CellResult& result, double first_seconds) {
    const PartSeconds parts = result.parts.value_or(PartSeconds{});
    const auto shown = [&](double seconds) {
      return result.parts ? fmt::format("{:.2f}", seconds) : std::string("-");
    };
    const auto written = [&](double seconds) {
      return result.parts ? exact(seconds) : std::string();
    };
    table_.add_row({who, fmt::format("{:.2f}", result.seconds), shown(parts.clustering),
                    shown(parts.adaptation), shown(parts.training),
                    fmt::format("{:.1f} x", result.seconds / first_seconds),
                    fmt::format("{:.0f}", result.regret)});
    csv_.add_row({who, std::to_string(result.rounds), exact(result.seconds),
                  written(parts.clustering), written(parts.adaptation), written(parts.training),
                  exact(result.regret)});
  }

  const TextTable& table() const { return table_; }
  const TextTable& csv() const { return csv_; }

 private:
  TextTable table_{
      {"policy", "seconds", "clustering", "adaptation", "training", "as long", "regret"}};
  TextTable csv_{{"policy", "rounds", "seconds", "clustering_seconds", "adaptation_seconds",
                  "training_seconds", "regret"}};
};

}  // namespace

void bench_blocks(const BlockBenchOptions& options, Display& display) {
  require_within("rounds", options.rounds, 1, 100'000'000);
  if (!is_classification(options.environment)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("environment: expected one with labelled samples, got \"{}\"",
                            options.environment.name));
  }
  make_output_folder(options.output);
  display.say(fmt::format("{}, {} rounds, one thread, {}\n", options.environment.name,
                          options.rounds, kernels::simd_target()));
  check_answers(options.environment, display);
  Report report;
  Player ours(options.environment, "mcnb");
  const CellResult first = play_all(ours, options.rounds);
  report.add("mcnb", first, first.seconds);
  Player copies(options.environment, "mcnb");
  copies.set_bookkeeping(Bookkeeping::kExplicit);
  report.add("mcnb (copies of the weights)", play_all(copies, options.rounds), first.seconds);
  Player other(options.environment, "neuucb-one");
  report.add("neuucb-one", play_all(other, options.rounds), first.seconds);
  display.say("\n");
  display.show("blocks", report.table(), report.csv());
  display.say(fmt::format(
      "\nlimit of the adaptation, to read the features of its draws from memory: {:.2f} s\n",
      memory_limit(first.steps.adaptation, options.rounds, ours.environment->block_length())));
  const std::filesystem::path path = std::filesystem::path(options.output) / "bench-blocks.csv";
  write_file(path, report.csv().csv());
  display.say(fmt::format("table: {}\n", path.string()));
}

}  // namespace mcnb::bench
