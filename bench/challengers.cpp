#include "bench/challengers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "bench/alternating.h"
#include "bench/learning_players.h"
#include "bench/report.h"
#include "bench/serve_parts.h"
#include "mcnb/bandit/lesson_weights.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"

namespace mcnb::bench {
namespace {

constexpr const char* kAlone = "alone";
constexpr const char* kChallenged = "challenged";

ChallengerOptions challenger_of(const ChallengersBenchOptions& options, LessonWeights weights) {
  ChallengerOptions challenger;
  challenger.policy = parse_policy(options.challenger);
  bound_history(challenger.policy);
  challenger.weights = weights;
  return challenger;
}

// A service with two models, of which one has the challenger.
ServerOptions two_models(const ChallengersBenchOptions& options, const ModelOptions& model,
                         const std::filesystem::path& folder) {
  ServerOptions server;
  server.data = folder.string();
  server.port = 0;
  server.threads = 1;
  server.connections_per_address = 0;
  server.request_lines = 0.0;
  server.models[kAlone] = server.models[kChallenged] = model;
  server.challengers[kChallenged]["challenger"] = challenger_of(options, LessonWeights::kNone);
  return server;
}

void measure_cost(const ChallengersBenchOptions& options, Display& display) {
  const Folder folder(options.output);
  const ModelOptions model = learning_model(parse_policy(options.policy), 1);
  const Server server(two_models(options, model, folder.path() / "challengers"));
  const AddedCost cost =
      measure_added_cost(model, {&server, kAlone}, {&server, kChallenged}, options.slices);
  cost.show(fmt::format("challenger {} of {}", options.challenger, options.policy), display);
}

// One policy in one world.
struct WorldResult {
  std::string who;
  double learned = 0.0;   // expected reward of what it prefers, in the last quarter
  RunningValue estimate;  // of what it would earn; without decisions if there is none
  double truth = 0.0;     // of the same, known from the world
};

double last_quarter(const std::vector<double>& values) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(3 * values.size() / 4);
  return std::accumulate(begin, values.end(), 0.0) / static_cast<double>(values.end() - begin);
}

// Notes what random play would earn, too.
class WatchedPlayer : public LearningPlayer {
 public:
  explicit WatchedPlayer(ServedPlayer& player) : player_(player) {}

  std::size_t choose(std::uint64_t number, const LearningRound& round) override {
    random_.push_back(std::accumulate(round.expected.begin(), round.expected.end(), 0.0) /
                      static_cast<double>(round.expected.size()));
    return player_.choose(number, round);
  }
  void reward(std::uint64_t number, float value) override { player_.reward(number, value); }

  // What a policy would earn in the decisions of an estimate, the first ones: rewards that never
  // come are worth the default of 0.
  double truth(const std::vector<double>& preferred, const RunningValue& estimate, double epsilon,
               double missing) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < estimate.count(); ++i) {
      sum += (1.0 - epsilon) * preferred[i] + epsilon * random_[i];
    }
    return (1.0 - missing) * sum / static_cast<double>(estimate.count());
  }

 private:
  ServedPlayer& player_;
  std::vector<double> random_;
};

std::vector<WorldResult> play_world(const ChallengersBenchOptions& options,
                                    const LearningScenario& scenario, std::uint64_t seed) {
  ThreadPool threads(1);
  std::vector<ChallengerOptions> challengers{challenger_of(options, LessonWeights::kNone)};
  if (takes_weights(challengers.front().policy)) {
    challengers.push_back(challenger_of(options, LessonWeights::kClipped));
  }
  const ModelOptions model = learning_model(parse_policy(options.policy), seed);
  ServedPlayer player(model, threads, challengers);
  WatchedPlayer watched(player);
  play_learning(scenario, seed, options.decisions, model, watched);
  const EstimateReport report = player.estimates();
  std::vector<WorldResult> outcomes;
  const auto note = [&](const std::string& who, std::size_t policy, const RunningValue& estimate) {
    const std::vector<double>& preferred = player.preferred()[policy];
    outcomes.push_back({who, last_quarter(preferred), estimate,
                        watched.truth(preferred, estimate, model.epsilon, scenario.missing)});
  };
  note(options.policy + ", answers", 0, report.champion);
  for (std::size_t i = 0; i < challengers.size(); ++i) {
    note(fmt::format("{}, challenger, weights={}", options.challenger,
                     name_of(challengers[i].weights)),
         i + 1, report.challengers[i].estimate);
  }
  const ModelOptions own = learning_model(parse_policy(options.challenger), seed);
  ServedPlayer itself(own, threads);
  play_learning(scenario, seed, options.decisions, own, itself);
  outcomes.push_back(
      {options.challenger + ", answers itself", last_quarter(itself.preferred()[0]), {}, 0.0});
  return outcomes;
}

std::vector<std::string> cells_of(const LearningScenario& scenario,
                                  const std::vector<std::vector<WorldResult>>& worlds,
                                  std::size_t policy) {
  const auto seeds = static_cast<double>(worlds.size());
  double learned = 0.0;
  double truth = 0.0;
  double error = 0.0;
  double width = 0.0;
  std::size_t held = 0;
  for (const std::vector<WorldResult>& world : worlds) {
    const WorldResult& own = world[policy];
    learned += own.learned / seeds;
    if (own.estimate.value()) {
      const Interval interval = own.estimate.interval();
      truth += own.truth / seeds;
      error += std::abs(*own.estimate.value() - own.truth) / seeds;
      width += (interval.high - interval.low) / seeds;
      held += interval.low <= own.truth && own.truth <= interval.high ? 1 : 0;
    }
  }
  std::vector<std::string> cells{scenario.name, worlds.front()[policy].who,
                                 fmt::format("{:.3f}", learned)};
  if (!worlds.front()[policy].estimate.value()) {
    cells.resize(7);
    return cells;
  }
  for (const double number : {truth, error, width}) {
    cells.push_back(fmt::format("{:.3f}", number));
  }
  cells.push_back(fmt::format("{} of {}", held, worlds.size()));
  return cells;
}

void measure_learning(const ChallengersBenchOptions& options, Display& display) {
  TextTable table({"scenario", "policy", "prefers at the end", "would earn",
                   "error of the estimate", "width of the interval", "it holds the truth"});
  for (const LearningScenario& scenario : learning_scenarios()) {
    std::vector<std::vector<WorldResult>> worlds;
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
      worlds.push_back(play_world(options, scenario, seed));
    }
    for (std::size_t policy = 0; policy < worlds.front().size(); ++policy) {
      table.add_row(cells_of(scenario, worlds, policy));
    }
    display.say(fmt::format("played {}\n", scenario.name));
  }
  display.show("challengers", table, table);
  write_file(std::filesystem::path(options.output) / "bench-challengers.csv", table.csv());
}

}  // namespace

void bench_challengers(const ChallengersBenchOptions& options, Display& display) {
  require_within("--slices", options.slices, 0, 10'000);
  require_within("--seeds", options.seeds, 1, 1000);
  if (options.decisions > 0) {
    require_within("--decisions", options.decisions, 1000, 1'000'000);
  }
  parse_policy(options.policy);
  parse_policy(options.challenger);
  make_output_folder(options.output);
  if (options.slices > 0) {
    measure_cost(options, display);
  }
  if (options.decisions > 0) {
    measure_learning(options, display);
  }
}

}  // namespace mcnb::bench
