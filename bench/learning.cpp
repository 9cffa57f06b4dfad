#include "bench/learning.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <numeric>

#include "bench/learning_players.h"
#include "bench/limits.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/experiment/plot/line_plot.h"

namespace mcnb::bench {
namespace {

// When the mean rewards are shown, in decisions. Each is half of the next.
constexpr std::uint64_t kShown[] = {500, 1000, 2000, 4000, 8000};
constexpr std::uint64_t kDrawnEvery = 250;

// Players that are no policies of the service.
constexpr const char* kCeiling = "ceiling";
constexpr const char* kRandomChoice = "random choice";
constexpr const char* kLinearEach = "Bayesian linear, per user";
constexpr const char* kLinearAll = "Bayesian linear, for all";

// The last decisions that a mean is taken over.
std::uint64_t window(std::uint64_t decisions) {
  return std::clamp<std::uint64_t>(decisions / 4, 250, 1000);
}

double recent_mean(const std::vector<double>& values, std::uint64_t decisions) {
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(decisions);
  const auto count = static_cast<std::ptrdiff_t>(std::min(window(decisions), decisions));
  return std::accumulate(end - count, end, 0.0) / static_cast<double>(count);
}

// One player in one scenario.
struct Course {
  std::string player;
  std::vector<std::vector<double>> values;  // expected rewards, by seed and decision
  double seconds = 0.0;                     // of all seeds
  std::string failure;                      // why it could not play

  double mean(std::uint64_t decisions) const {
    double sum = 0.0;
    for (const std::vector<double>& one : values) {
      sum += recent_mean(one, decisions);
    }
    return sum / static_cast<double>(values.size());
  }
  double deviation(std::uint64_t decisions) const {
    if (values.size() < 2) {
      return 0.0;
    }
    double squares = 0.0;
    for (const std::vector<double>& one : values) {
      squares += std::pow(recent_mean(one, decisions) - mean(decisions), 2);
    }
    return std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
};

bool is_policy(const std::string& player) {
  return player != kCeiling && player != kRandomChoice && player != kLinearEach &&
         player != kLinearAll;
}

std::vector<std::string> players_of(const LearningBenchOptions& options) {
  std::vector<std::string> players{kCeiling, kRandomChoice, kLinearEach, kLinearAll};
  if (!options.policies.empty()) {
    players.insert(players.end(), options.policies.begin(), options.policies.end());
    return players;
  }
  for (const PolicyHelp& policy : policy_help()) {
    if (policy.name != "random") {  // it is there already
      players.push_back(policy.name);
    }
  }
  return players;
}

std::unique_ptr<LearningPlayer> make_player(const std::string& player, const ModelOptions& model,
                                            ThreadPool& threads) {
  if (player == kCeiling) {
    return make_ceiling_player(model);
  }
  if (player == kRandomChoice) {
    return make_random_player(model);
  }
  if (!is_policy(player)) {
    return make_linear_player(model, player == kLinearEach);
  }
  return make_served_player(model, threads);
}

ModelOptions model_of(const std::string& player, std::uint64_t seed) {
  return learning_model(is_policy(player) ? parse_policy(player) : ModelOptions{}.policy, seed);
}

void play(const LearningBenchOptions& options, const LearningScenario& scenario, Course& course) {
  ThreadPool alone(1);
  const double begin = now_seconds();
  try {
    for (std::uint64_t i = 0; i < options.seeds; ++i) {
      const std::uint64_t seed = options.first_seed + i;
      const ModelOptions model = model_of(course.player, seed);
      const std::unique_ptr<LearningPlayer> player = make_player(course.player, model, alone);
      course.values.push_back(play_learning(scenario, seed, options.rounds, model, *player));
    }
  } catch (const Error& error) {
    course.failure = error.what();
  }
  course.seconds = now_seconds() - begin;
}

std::vector<Course> play_all(const LearningBenchOptions& options, const LearningScenario& scenario,
                             ThreadPool& threads, Display& display) {
  std::vector<Course> courses;
  for (const std::string& player : players_of(options)) {
    courses.push_back({.player = player});
  }
  std::mutex printing;
  threads.parallel_for(courses.size(), 1, [&](std::size_t i, std::size_t) {
    play(options, scenario, courses[i]);
    const std::lock_guard lock(printing);
    const Course& course = courses[i];
    display.say(fmt::format("{}: {}: {} ({:.1f} s)\n", scenario.name, course.player,
                            course.failure.empty()
                                ? fmt::format("{:.3f}", course.mean(options.rounds))
                                : "cannot play: " + course.failure,
                            course.seconds));
    std::fflush(stdout);
  });
  return courses;
}

// The highest mean of a policy, or of a linear model.
double best_of(const std::vector<Course>& courses, std::uint64_t decisions) {
  double best = 0.0;
  for (const Course& course : courses) {
    if (course.failure.empty() && course.player != kCeiling) {
      best = std::max(best, course.mean(decisions));
    }
  }
  return best;
}

std::vector<std::uint64_t> shown(std::uint64_t rounds) {
  return at_most(rounds, {std::begin(kShown), std::end(kShown)});
}

// The shown time that comes from the last one by so many halvings, if there is one, and the last.
std::vector<std::uint64_t> times_of_shares(const std::vector<std::uint64_t>& times,
                                           std::size_t halvings) {
  if (times.size() <= halvings) {
    return {times.back()};
  }
  return {times[times.size() - 1 - halvings], times.back()};
}

void print_table(const LearningBenchOptions& options, const LearningScenario& scenario,
                 const std::vector<Course>& courses, Display& display) {
  const std::vector<std::uint64_t> times = shown(options.rounds);
  std::vector<std::string> headings{"who decides"};
  for (const std::uint64_t time : times) {
    headings.push_back(std::to_string(time));
  }
  const std::vector<std::uint64_t> times_of_best = times_of_shares(times, 2);
  const std::vector<std::uint64_t> times_of_ceiling = times_of_shares(times, 1);
  for (const std::uint64_t time : times_of_best) {
    headings.push_back(fmt::format("of the best at {}", time));
  }
  for (const std::uint64_t time : times_of_ceiling) {
    headings.push_back(fmt::format("of the ceiling at {}", time));
  }
  headings.push_back("per decision");
  headings.push_back("note");
  TextTable table(headings);
  for (const Course& course : courses) {
    std::vector<std::string> cells{course.player};
    if (!course.failure.empty()) {
      cells.resize(headings.size() - 1);
      cells.push_back(course.failure);
      table.add_row(cells);
      continue;
    }
    for (const std::uint64_t time : times) {
      cells.push_back(fmt::format("{:.3f}", course.mean(time)));
    }
    const double decisions = static_cast<double>(options.rounds * options.seeds);
    for (const std::uint64_t time : times_of_best) {
      cells.push_back(percent(course.mean(time) / best_of(courses, time)));
    }
    for (const std::uint64_t time : times_of_ceiling) {
      cells.push_back(percent(course.mean(time) / courses.front().mean(time)));
    }
    cells.push_back(milliseconds(course.seconds / decisions));
    cells.push_back(course.player == ModelOptions{}.policy.name ? "the service's default" : "");
    table.add_row(cells);
  }
  display.say(fmt::format("\n{} ({} seeds; mean reward of recent decisions)\n", scenario.title,
                          options.seeds));
  display.show(std::string(scenario.name), table, table);
  display.say("\n");
}

void add_rows(const LearningBenchOptions& options, const LearningScenario& scenario,
              const std::vector<Course>& courses, TextTable& csv) {
  for (const Course& course : courses) {
    for (std::uint64_t time = kDrawnEvery; time <= options.rounds && course.failure.empty();
         time += kDrawnEvery) {
      csv.add_row({scenario.name, course.player, std::to_string(time),
                   std::to_string(options.seeds), exact(course.mean(time)),
                   exact(course.deviation(time)),
                   exact(course.seconds / static_cast<double>(options.rounds * options.seeds))});
    }
  }
}

// Those who can play: all that are no policies, the default, and the best few of the others.
std::vector<Course> drawn(const LearningBenchOptions& options, const std::vector<Course>& courses) {
  constexpr std::size_t kMostDrawn = 11;
  std::vector<Course> chosen;
  std::ranges::copy_if(courses, std::back_inserter(chosen),
                       [](const Course& course) { return course.failure.empty(); });
  const auto always = [](const Course& course) {
    return !is_policy(course.player) || course.player == ModelOptions{}.policy.name;
  };
  std::ranges::stable_sort(chosen, [&](const Course& a, const Course& b) {
    return always(a) != always(b) ? always(a)
                                  : !always(a) && a.mean(options.rounds) > b.mean(options.rounds);
  });
  chosen.resize(std::min(chosen.size(), kMostDrawn));
  return chosen;
}

void draw(const LearningBenchOptions& options, const LearningScenario& scenario,
          const std::vector<Course>& courses) {
  std::vector<PlotLine> lines;
  for (const Course& course : drawn(options, courses)) {
    PlotLine line{.label = course.player};
    line.published = course.player == kCeiling;
    line.wide = course.player == ModelOptions{}.policy.name;
    for (std::uint64_t time = 2 * kDrawnEvery; time <= options.rounds; time += 2 * kDrawnEvery) {
      line.points.push_back({.x = static_cast<double>(time), .y = course.mean(time)});
    }
    lines.push_back(std::move(line));
  }
  draw_lines(options.output, fmt::format("learning-{}", scenario.name),
             {.title = scenario.title, .x = "decisions", .y = "mean reward, recent decisions"},
             lines);
}

std::vector<LearningScenario> scenarios_of(const LearningBenchOptions& options) {
  std::vector<LearningScenario> chosen;
  std::string known;
  for (const LearningScenario& scenario : learning_scenarios()) {
    known += (known.empty() ? "" : ", ") + std::string(scenario.name);
    if (options.scenarios.empty() || std::ranges::count(options.scenarios, scenario.name) > 0) {
      chosen.push_back(scenario);
    }
  }
  for (const std::string& name : options.scenarios) {
    if (std::ranges::count(chosen, name, &LearningScenario::name) == 0) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--scenario: expected one of {}, got \"{}\"", known, name));
    }
  }
  return chosen;
}

}  // namespace

void bench_learning(const LearningBenchOptions& options, Display& display) {
  require_within("--rounds", options.rounds, 500, 1'000'000);
  require_within("--seeds", options.seeds, 1, 1000);
  const std::vector<LearningScenario> scenarios = scenarios_of(options);
  for (const std::string& policy : options.policies) {
    parse_policy(policy);  // refuses a bad one before time is spent
  }
  make_output_folder(options.output);
  ThreadPool threads(options.threads);
  TextTable csv({"scenario", "player", "decisions", "seeds", "mean", "deviation", "seconds"});
  for (const LearningScenario& scenario : scenarios) {
    const std::vector<Course> courses = play_all(options, scenario, threads, display);
    print_table(options, scenario, courses, display);
    add_rows(options, scenario, courses, csv);
    draw(options, scenario, courses);
  }
  const std::filesystem::path file = std::filesystem::path(options.output) / "bench-learning.csv";
  write_file(file, csv.csv());
  display.say(fmt::format("wrote {} and pictures learning-SCENARIO\n", file.string()));
}

}  // namespace mcnb::bench
