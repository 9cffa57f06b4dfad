#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/evaluate/evaluation.h"

namespace mcnb::cases {

// A world of two kinds of users and some actions, in which everything is known: action i earns 1
// with the probability `earns(kind, i)`. The log chooses action kind % actions with most of the
// probability.
struct SyntheticWorld {
  std::size_t actions = 4;
  double epsilon = 0.4;  // of the logging policy

  double earns(std::size_t kind, std::size_t action) const {
    return 0.1 +
           0.6 * static_cast<double>((action + 2 * kind) % actions) / static_cast<double>(actions);
  }
  double logs(std::size_t kind, std::size_t action) const {
    return epsilon / static_cast<double>(actions) + (action == kind ? 1.0 - epsilon : 0.0);
  }
  // The values of the policies "random" and "action=aN".
  double value_of_random() const {
    double sum = 0.0;
    for (std::size_t action = 0; action < actions; ++action) {
      sum += value_of_action(action) / static_cast<double>(actions);
    }
    return sum;
  }
  double value_of_action(std::size_t action) const {
    return (earns(0, action) + earns(1, action)) / 2.0;
  }

  LoggedRound round(std::uint64_t log, std::uint64_t number) const {
    Rng rng(log, Stream::kTest, number);
    const std::size_t kind = rng.below(2);
    LoggedRound round;
    round.event = std::to_string(number);
    round.context = fmt::format("{{\"kind\":\"k{}\"}}", kind);
    double left = rng.uniform();
    for (std::size_t action = 0; action < actions; ++action) {
      round.actions.push_back({fmt::format("a{}", action), ""});
      round.probabilities.push_back(logs(kind, action));
      if (left >= 0.0) {
        round.chosen = static_cast<std::uint32_t>(action);
      }
      left -= round.probabilities.back();
    }
    round.probability = round.probabilities[round.chosen];
    round.reward = rng.chance(earns(kind, round.chosen)) ? 1.0 : 0.0;
    return round;
  }
};

inline std::vector<LoggedRound> synthetic_log(const SyntheticWorld& world, std::uint64_t log,
                                              std::uint64_t rounds) {
  std::vector<LoggedRound> all;
  for (std::uint64_t number = 0; number < rounds; ++number) {
    all.push_back(world.round(log, number));
  }
  return all;
}

inline Evaluation evaluate(const std::vector<LoggedRound>& rounds, const EvaluationOptions& options,
                           std::size_t threads = 1) {
  ThreadPool pool(threads);
  return evaluate_log(
      [&](bool, const VisitRound& visit) {
        for (const LoggedRound& round : rounds) {
          visit(round);
        }
      },
      options, pool);
}

// Rows with weights that scatter widely, as an exploring log gives them.
inline std::vector<EvaluatedRow> drawn_rows(std::uint64_t seed, std::size_t count) {
  std::vector<EvaluatedRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed, Stream::kTest, i);
    EvaluatedRow row;
    row.weight = rng.chance(0.5) ? 0.0 : 1.0 / (0.02 + rng.uniform());
    row.reward = rng.uniform();
    row.model_logged = rng.uniform();
    row.model_policy = rng.uniform();
    row.sample_weight = rng.chance(0.2) ? 2.0 : 1.0;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace mcnb::cases
