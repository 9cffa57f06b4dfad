// Whole evaluations of logs whose answers are known.

#include "mcnb/evaluate/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "mcnb/evaluate/column_evaluation.h"
#include "mcnb/evaluate/estimate/estimator_sums.h"
#include "mcnb/evaluate/estimate/reward_model.h"
#include "mcnb/evaluate/estimate/round_features.h"
#include "mcnb/evaluate/evaluation_report.h"
#include "mcnb/evaluate/readers/column_reader.h"
#include "tests/evaluate/log_cases.h"
#include "tests/evaluate/synthetic_log.h"
#include "tests/expect_error.h"
#include "tests/long_tests.h"
#include "tests/sanitizers.h"

namespace mcnb::evaluation_test {
namespace {

using cases::evaluate;
using cases::synthetic_log;
using cases::SyntheticWorld;

const PolicyEstimate& estimate_of(const PolicyEvaluation& policy, Estimator estimator) {
  return *std::ranges::find(policy.estimates, estimator, &PolicyEstimate::estimator);
}

EvaluationOptions options_for(std::vector<std::string> policies) {
  EvaluationOptions options;
  options.policies = std::move(policies);
  options.dimension = 16;
  options.replicates = 200;
  return options;
}

// Whether the anytime interval holds the truth whenever one looks.
bool holds_all_the_way(const std::vector<LoggedRound>& rounds, std::size_t action, double truth) {
  ConfidenceSequence sequence(0.0, 1.0);
  const std::size_t looks = std::max<std::size_t>(1, rounds.size() / 40);
  for (std::size_t t = 0; t < rounds.size(); ++t) {
    sequence.add(rounds[t].chosen == action ? 1.0 / rounds[t].probability : 0.0, *rounds[t].reward);
    if ((t + 1) % looks == 0 && !sequence.interval().contains(truth)) {
      return false;
    }
  }
  return true;
}

// How often intervals hold the truth, of the logs that have what the intervals ask for: by policy
// and estimator.
struct Coverage {
  int logs = 0;
  int anytime = 0;
  int bernstein = 0;  // intervals of IPS and DR that missed the truth
  std::map<Estimator, int> held;
};

std::vector<Coverage> coverage_of(const SyntheticWorld& world, std::uint64_t rounds,
                                  std::size_t action, int logs) {
  const EvaluationOptions options = options_for({"random", fmt::format("action=a{}", action)});
  const std::vector<double> truth{world.value_of_random(), world.value_of_action(action)};
  std::vector<Coverage> all(truth.size());
  for (int log = 0; log < logs; ++log) {
    const std::uint64_t seed = test_seed() * 10'000 + static_cast<std::uint64_t>(log);
    const std::vector<LoggedRound> played = synthetic_log(world, seed, rounds);
    const Evaluation evaluation = evaluate(played, options);
    for (std::size_t k = 0; k < truth.size(); ++k) {
      const PolicyEvaluation& policy = evaluation.slots.front().policies[k];
      if (policy.weights.effective_size < 200.0 || policy.weights.positive < 30) {
        continue;
      }
      ++all[k].logs;
      all[k].anytime += policy.anytime->contains(truth[k]) &&
                                (k == 0 || holds_all_the_way(played, action, truth[k]))
                            ? 1
                            : 0;
      for (const PolicyEstimate& estimate : policy.estimates) {
        all[k].held[estimate.estimator] += estimate.bootstrap.contains(truth[k]) ? 1 : 0;
        all[k].bernstein += is_unbiased(estimate.estimator) && estimate.bernstein &&
                                    !estimate.bernstein->contains(truth[k])
                                ? 1
                                : 0;
      }
    }
  }
  return all;
}

// Logs with plenty of exploration, and logs of ten actions of which one is only taken to explore.
// tests/run_long looks at 1,000 of each, and at logs that explore less.
TEST(Evaluation, IntervalsOfUnbiasedEstimatorsHoldTheTruth) {
  struct Case {
    SyntheticWorld world;
    std::uint64_t rounds;
    std::size_t action;
    int share;  // one of so many logs
  };
  const int most = kSanitized ? 20 : static_cast<int>(repeats("MCNB_LOGS", 200));
  const bool whole = most >= 1000;
  std::vector<Case> cases{{{.actions = 4, .epsilon = 0.6}, 1200, 1, 1}};
  if (!kSanitized) {
    cases.push_back({{.actions = 10, .epsilon = 0.25}, 9000, 5, whole ? 1 : 8});
  }
  if (whole) {
    cases.push_back({{.actions = 10, .epsilon = 0.1}, 25'000, 5, 1});
  }
  for (const auto& [world, rounds, action, share] : cases) {
    const int logs = most / share;
    // Few logs scatter: three deviations of a share of 95 %.
    const double least = 0.93 - (whole ? 0.0 : 3.0 * std::sqrt(0.95 * 0.05 / logs));
    for (const Coverage& found : coverage_of(world, rounds, action, logs)) {
      EXPECT_GE(found.logs, logs * 9 / 10) << "logs with too few rounds";
      EXPECT_GE(found.anytime, found.logs * 95 / 100);
      EXPECT_LE(found.bernstein, 2 * found.logs * 5 / 100);
      for (const auto& [estimator, held] : found.held) {
        const double part = static_cast<double>(held) / found.logs;
        const std::string text =
            fmt::format("{} of {} actions, {} rounds", name_of(estimator), world.actions, rounds);
        if (whole) {
          fmt::print("{}: {:.3f} of {} logs\n", text, part, found.logs);
        }
        if (is_unbiased(estimator)) {
          EXPECT_GE(part, least) << text;
          EXPECT_TRUE(logs < 200 || part <= 0.995) << text;  // not so wide that they say nothing
        }
      }
    }
  }
}

TEST(Evaluation, ModelsOfRewardsMayBeNetworks) {
  const SyntheticWorld world{.epsilon = 0.6};
  EvaluationOptions options = options_for({"random", "action=a1"});
  options.model = RewardModel::kNetwork;
  options.estimators = {Estimator::kDirect, Estimator::kDoublyRobust};
  const Evaluation evaluation =
      evaluate(synthetic_log(world, 21, kSanitized ? 600 : 3000), options);
  EXPECT_EQ(
      evaluation_json(evaluation),
      evaluation_json(evaluate(synthetic_log(world, 21, kSanitized ? 600 : 3000), options, 4)));
  const std::array<double, 2> truth{world.value_of_random(), world.value_of_action(1)};
  for (std::size_t k = 0; k < 2; ++k) {
    for (const PolicyEstimate& estimate : evaluation.slots[0].policies[k].estimates) {
      EXPECT_NEAR(estimate.value, truth[k], kSanitized ? 0.15 : 0.05)
          << name_of(estimate.estimator);
    }
  }
  expect_error(ErrorKind::kUsage, "expected ridge or network", [] { parse_reward_model("tree"); });
}

// The table of one policy says what the log says.
TEST(Evaluation, ATableOfProbabilitiesIsEvaluatedInOnePass) {
  const std::vector<EvaluatedRow> rows = cases::drawn_rows(31, 900);
  std::string text = "extra,reward,probability,policy_probability,model_logged,model_policy\r\n";
  std::vector<EvaluatedRow> expected;
  for (const EvaluatedRow& row : rows) {
    const double policy = row.weight > 0.0 ? std::min(1.0, row.weight / 60.0) : 0.0;
    text += fmt::format("x y,{},{},{},{:e},{}\r\n", row.reward, 1.0 / 60.0, policy,
                        row.model_logged, row.model_policy);
    expected.push_back(row);
    expected.back().weight = policy / (1.0 / 60.0);
    expected.back().sample_weight = 1.0;
  }
  EvaluationOptions options = options_for({});
  const ColumnEvaluation found = evaluate_columns(text_input(text, "table"), options, 0);
  const PolicyEvaluation& policy = found.evaluation.slots.front().policies.front();
  ASSERT_EQ(policy.estimates.size(), kEveryEstimator.size());
  for (const PolicyEstimate& estimate : policy.estimates) {
    // Numbers of {:e} have seven digits.
    EXPECT_NEAR(estimate.value, value_of(estimate.estimator, estimate.parameter, expected), 1e-5);
  }
  EXPECT_EQ(found.evaluation.log.rounds, 900U);
  const std::string header = "probability,policy_probability,reward\n";
  const auto evaluated = [&](const std::string& lines, std::uint64_t skip_bad) {
    return evaluate_columns(text_input(header + lines, "t.csv"), options, skip_bad);
  };
  EXPECT_EQ(evaluated("0.5,1,1\n0.5,x,1\n0.25,0,0\n", 1).skipped, 1U);
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {"0.5,x,1", "t.csv:2: policy_probability: expected a finite number, found \"x\""},
           {"0.5,1", "t.csv:2: expected 3 columns, found 2"},
           {"0.5,1,1,1", "t.csv:2: expected 3 columns, found 4"},
           {"0.5,,1", "t.csv:2: policy_probability: expected a finite number, found \"\""},
           {"0,1,1", "t.csv:2: probability: expected a number above 0"},
           {"1e-101,1,1", "t.csv:2: probability: expected a number above 0"},
           {"0.5,1.5,1", "t.csv:2: policy_probability: expected a number in [0, 1]"},
           {"0.5,1,nan", "t.csv:2: reward: expected a finite number"}}) {
    expect_error(ErrorKind::kInput, words, [&] { evaluated(line + "\n", 0); });
  }
  expect_error(ErrorKind::kInput, "log with exploration", [&] { evaluated("1,1,1\n1,0,0\n", 0); });
  expect_error(ErrorKind::kInput, "t.csv:1: expected the columns probability", [&] {
    evaluate_columns(text_input("policy_probability,reward\n", "t.csv"), options, 0);
  });
}

// Any text of a number is the double that the C library reads.
TEST(ColumnReader, ReadsNumbersToTheLastBit) {
  std::string text = "reward,probability,policy_probability\n";
  std::vector<double> expected;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    Rng rng(32, Stream::kTest, i);
    const double number =
        (rng.uniform() - 0.5) * std::pow(10.0, static_cast<int>(rng.below(9)) - 4);
    const std::string form = fmt::format("{{:.{}{}}}", rng.below(18), rng.chance(0.2) ? "e" : "f");
    const std::string written = fmt::format(fmt::runtime(form), number);
    text += written + ",0.5,0.25\n";
    expected.push_back(std::stod(written));
  }
  ColumnReader reader(text_input(text, "table"), 0);
  std::vector<PolicyRow> rows(4000);
  ASSERT_EQ(reader.read(rows), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(rows[i].row.reward, expected[i]);
    EXPECT_EQ(rows[i].row.weight, 0.5);
  }
  EXPECT_EQ(reader.read(rows), 0U);
}

// The log chooses by what the model cannot see.
TEST(Evaluation, TheDirectMethodFailsWhereItsModelIsWrong) {
  const SyntheticWorld world{.epsilon = 0.2};
  std::vector<LoggedRound> rounds = synthetic_log(world, 77, 6000);
  for (LoggedRound& round : rounds) {
    round.context.clear();
  }
  const Evaluation evaluation = evaluate(rounds, options_for({"action=a1"}));
  const PolicyEvaluation& policy = evaluation.slots.front().policies.front();
  const double truth = world.value_of_action(1);
  EXPECT_FALSE(estimate_of(policy, Estimator::kDirect).bootstrap.contains(truth));
  EXPECT_TRUE(estimate_of(policy, Estimator::kIps).bootstrap.contains(truth));
  EXPECT_TRUE(estimate_of(policy, Estimator::kDoublyRobust).bootstrap.contains(truth));
  EXPECT_GT(std::abs(estimate_of(policy, Estimator::kDirect).bias), 0.05);
}

// Computes rows as the text of the method says, one policy and one round after the other.
TEST(Evaluation, RowsAreThoseOfThePlainMethod) {
  const SyntheticWorld world;
  const std::vector<LoggedRound> rounds = synthetic_log(world, 5, 400);
  EvaluationOptions options = options_for({"first"});
  options.baseline = "random";
  RoundFeatures features(16);
  CrossFittedRidge model(16, options.lambda);
  for (std::uint64_t i = 0; i < rounds.size(); ++i) {
    const std::span<const float> all = features.of(rounds[i]);
    model.add(i, all.subspan(rounds[i].chosen * 16, 16), *rounds[i].reward);
  }
  std::vector<EvaluatedRow> first;
  std::vector<EvaluatedRow> random;
  for (std::uint64_t i = 0; i < rounds.size(); ++i) {
    const LoggedRound& round = rounds[i];
    std::array<double, 4> q{};
    model.predict(i, features.of(round), q);
    const double p = round.probability;
    first.push_back({.weight = round.chosen == 0 ? 1.0 / p : 0.0,
                     .reward = *round.reward,
                     .model_logged = q[round.chosen],
                     .model_policy = q[0]});
    random.push_back({.weight = 0.25 / p,
                      .reward = *round.reward,
                      .model_logged = q[round.chosen],
                      .model_policy = (q[0] + q[1] + q[2] + q[3]) / 4.0});
  }
  const Evaluation evaluation = evaluate(rounds, options);
  const PolicyEvaluation& policy = evaluation.slots.front().policies.front();
  ASSERT_EQ(policy.estimates.size(), kEveryEstimator.size());
  for (const PolicyEstimate& estimate : policy.estimates) {
    EstimatorSums sums(estimate.estimator);
    sums.add(first);
    const double m = sums.limit();
    EXPECT_EQ(estimate.parameter, m);
    EXPECT_NEAR(estimate.value, value_of(estimate.estimator, m, first), 1e-12);
    EstimatorSums other(estimate.estimator);
    other.add(random);
    const double reference = value_of(estimate.estimator, other.limit(), random);
    EXPECT_NEAR(estimate.difference, estimate.value - reference, 1e-12);
    EXPECT_TRUE(estimate.difference_interval.contains(estimate.difference));
    EXPECT_TRUE(estimate.bootstrap.contains(estimate.value));
  }
}

TEST(Evaluation, DoesNotDependOnTheNumberOfThreads) {
  const std::vector<LoggedRound> rounds = synthetic_log({}, 6, 300);
  const EvaluationOptions options =
      options_for({"random", "replay=linucb", "progressive=epsilon-greedy"});
  const std::string one = evaluation_json(evaluate(rounds, options, 1));
  for (const std::size_t threads : {2, 8}) {
    EXPECT_EQ(evaluation_json(evaluate(rounds, options, threads)), one);
  }
}

TEST(Evaluation, SlotsAreAlsoEstimatedApart) {
  const SyntheticWorld world;
  std::vector<LoggedRound> rounds = synthetic_log(world, 8, 600);
  std::vector<LoggedRound> of_slot_1;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    rounds[i].slot = static_cast<std::uint32_t>(i % 2);
    if (i % 2 == 1) {
      of_slot_1.push_back(rounds[i]);
    }
  }
  EvaluationOptions options = options_for({"random"});
  options.estimators = {Estimator::kIps, Estimator::kSnips};
  const Evaluation evaluation = evaluate(rounds, options);
  ASSERT_EQ(evaluation.slots.size(), 3U);
  EXPECT_EQ(evaluation.slots[2].slot, 1U);
  EXPECT_EQ(evaluation.slots[2].rounds, 300U);
  const SlotEvaluation alone = evaluate(of_slot_1, options).slots.front();
  for (std::size_t e = 0; e < 2; ++e) {
    EXPECT_EQ(evaluation.slots[2].policies[0].estimates[e].value,
              alone.policies[0].estimates[e].value);
  }
}

TEST(Evaluation, RefusesAnActionThatTheLogDoesNotHave) {
  const std::vector<LoggedRound> rounds = synthetic_log({}, 9, 50);
  expect_error(ErrorKind::kUsage,
               "policy \"action=b1\": expected an action of the log: a0, a1, a2, a3", [&] {
                 evaluate(rounds, options_for({"random", "action=b1"}));
               });
}

TEST(Evaluation, RefusesALogWithoutRandomnessAndSaysWhatHelps) {
  std::vector<LoggedRound> rounds = synthetic_log({}, 9, 100);
  for (LoggedRound& round : rounds) {
    round.probability = 1.0;
    round.probabilities.clear();
  }
  EvaluationOptions options = options_for({"random"});
  expect_error(ErrorKind::kInput, "log with exploration", [&] { evaluate(rounds, options); });
  options.estimators = {Estimator::kDirect};
  EXPECT_EQ(evaluate(rounds, options).slots.front().policies.front().estimates.size(), 1U);
}

TEST(Evaluation, LeavesOutAndCountsWhatCannotCount) {
  std::vector<LoggedRound> rounds = synthetic_log({}, 10, 200);
  const std::string whole = evaluation_json(evaluate(rounds, options_for({"first"})));
  LoggedRound extra = rounds.front();
  extra.excluded = true;
  rounds.insert(rounds.begin() + 20, extra);
  extra.excluded = false;
  extra.reward.reset();
  rounds.insert(rounds.begin() + 40, extra);
  const Evaluation evaluation = evaluate(rounds, options_for({"first"}));
  EXPECT_EQ(evaluation.excluded, 1U);
  EXPECT_EQ(evaluation.unrewarded, 1U);
  nlohmann::json found = nlohmann::json::parse(evaluation_json(evaluation));
  found["log"]["excluded"] = found["log"]["unrewarded"] = 0;
  EXPECT_EQ(found, nlohmann::json::parse(whole));
  expect_error(ErrorKind::kInput, "at least 2 rounds that have rewards", [&] {
    evaluate({extra, extra}, options_for({"first"}));
  });
}

TEST(Evaluation, WarnsOfWhatIsWrongWithALog) {
  const auto has = [](const Evaluation& evaluation, const std::string& words) {
    return std::ranges::any_of(evaluation.warnings, [&](const std::string& warning) {
      return warning.find(words) != std::string::npos;
    });
  };
  const std::vector<LoggedRound> sound = synthetic_log({}, 11, 1000);
  EXPECT_TRUE(evaluate(sound, options_for({"random"})).warnings.empty());

  std::vector<LoggedRound> rounds = sound;
  for (LoggedRound& round : rounds) {
    round.probability /= 2.0;  // half of what it was
    round.probabilities[round.chosen] /= 2.0;
  }
  Evaluation evaluation = evaluate(rounds, options_for({"random"}));
  EXPECT_TRUE(has(evaluation, "of 1000 rounds do not add up to 1"));
  EXPECT_TRUE(has(evaluation, "random: the mean weight is"));

  rounds = sound;
  std::erase_if(rounds, [](const LoggedRound& round) { return round.chosen == 3; });
  for (LoggedRound& round : rounds) {
    round.probabilities[3] = 0.0;
    round.reward = *round.reward * 2.0;
  }
  evaluation = evaluate(rounds, options_for({"random", "action=a3"}));
  EXPECT_TRUE(has(evaluation, "1 of 4 actions were never taken"));
  EXPECT_TRUE(has(evaluation, "random: 25.00 % of its decisions were impossible"));
  EXPECT_TRUE(has(evaluation, "action=a3: 100.00 % of its decisions were impossible"));
  EXPECT_TRUE(has(evaluation, "leave the range 0 to 1"));
  EXPECT_FALSE(evaluation.slots.front().policies.front().anytime.has_value());

  // The rewards are those of actions that the policy never takes.
  rounds = sound;
  for (LoggedRound& round : rounds) {
    round.reward = round.chosen == 3 ? *round.reward : 0.0;
  }
  evaluation = evaluate(rounds, options_for({"random", "action=a1"}));
  EXPECT_TRUE(has(evaluation, "action=a1: only 0 rewards above 0"));
  EXPECT_FALSE(has(evaluation, "random: only"));
}

// A dropped round is replaced by those like it: rewards were dropped with the probability 1/2.
TEST(Evaluation, RoundsCountForThoseThatWereDropped) {
  std::vector<LoggedRound> rounds = synthetic_log({}, 12, 4000);
  EvaluationOptions options = options_for({"random"});
  options.estimators = {Estimator::kIps, Estimator::kDoublyRobust};
  const Evaluation whole = evaluate(rounds, options);
  std::vector<LoggedRound> kept;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const bool is_dropped = *rounds[i].reward == 0.0 && Rng(13, Stream::kTest, i).chance(0.5);
    if (!is_dropped) {
      kept.push_back(rounds[i]);
      kept.back().drop_probability = *rounds[i].reward == 0.0 ? 0.5 : 0.0;
    }
  }
  const Evaluation dropped = evaluate(kept, options);
  EXPECT_NEAR(dropped.slots[0].logged, whole.slots[0].logged, 0.03);
  for (std::size_t e = 0; e < 2; ++e) {
    const PolicyEstimate& estimate = dropped.slots[0].policies[0].estimates[e];
    EXPECT_NEAR(estimate.value, whole.slots[0].policies[0].estimates[e].value, 0.03);
    EXPECT_FALSE(estimate.bernstein.has_value());
  }
}

// A sanity check with the published logs: what the log of one policy says of the other agrees with
// the other's own click rate, as far as 46 and 69 clicks can tell: their intervals overlap. `bts`
// is approximated by how often it showed each item in each position; its true probabilities vary.
TEST(Evaluation, TheLogsOfOpenBanditTellTheClickRatesOfEachOther) {
  MCNB_NEED_REAL_DATA(data);
  const auto log_of = [&](const std::string& policy) {
    return data / "open-bandit" / policy / "men" / "men.csv.gz";
  };
  if (!std::filesystem::exists(log_of("bts")) || kSanitized) {
    GTEST_SKIP() << "no sample of Open Bandit, or too slow";
  }
  const auto evaluated = [&](const std::string& log, const std::string& policy) {
    EvaluationOptions options = options_for({policy});
    options.estimators = {Estimator::kIps, Estimator::kSnips};
    ThreadPool threads(1);
    return evaluate_log(
        [&](bool features, const VisitRound& visit) {
          EXPECT_FALSE(features);
          read_log_file(log_of(log), {.features = features}, visit);
        },
        options, threads);
  };
  const std::vector<std::array<std::string, 3>> cases{
      {"bts", "random", "random"}, {"random", "frequency=" + log_of("bts").string(), "bts"}};
  const std::map<std::string, double> rates{{"random", 0.0046}, {"bts", 0.0069}};
  for (const auto& [log, policy, other] : cases) {
    const Evaluation evaluation = evaluated(log, policy);
    const Interval played = evaluated(other, "random").slots[0].logged_interval;
    EXPECT_NEAR(evaluation.slots[0].logged, rates.at(log), 1e-9);
    ASSERT_EQ(evaluation.slots.size(), 4U);
    const PolicyEvaluation& estimated = evaluation.slots[0].policies[0];
    EXPECT_TRUE(played.contains(rates.at(other)));
    EXPECT_TRUE(estimated.anytime->contains(rates.at(other))) << other;
    for (const PolicyEstimate& estimate : estimated.estimates) {
      EXPECT_LT(estimate.bootstrap.low, played.high) << other;
      EXPECT_GT(estimate.bootstrap.high, played.low) << other;
    }
  }
}

// Four slots that show the same say as much as one, not four times as much.
TEST(Evaluation, SlotsOfAnEventAreDrawnTogether) {
  const std::vector<LoggedRound> single = synthetic_log({}, 15, 700);
  std::vector<LoggedRound> several;
  for (const LoggedRound& round : single) {
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
      several.push_back(round);
      several.back().slot = slot;
      several.back().slots = 4;
    }
  }
  EvaluationOptions options = options_for({"random"});
  options.estimators = {Estimator::kIps, Estimator::kSnips, Estimator::kClippedIps};
  const PolicyEvaluation alone = evaluate(single, options).slots[0].policies[0];
  const Evaluation evaluation = evaluate(several, options);
  const PolicyEvaluation& all = evaluation.slots[0].policies[0];
  for (std::size_t e = 0; e < options.estimators.size(); ++e) {
    EXPECT_NEAR(all.estimates[e].bootstrap.low, alone.estimates[e].bootstrap.low, 1e-12);
    EXPECT_NEAR(all.estimates[e].bootstrap.high, alone.estimates[e].bootstrap.high, 1e-12);
    EXPECT_NEAR(all.estimates[e].error, alone.estimates[e].error, 1e-12);
    EXPECT_EQ(all.estimates[e].parameter, alone.estimates[e].parameter);
    EXPECT_FALSE(all.estimates[e].bernstein.has_value());
  }
  EXPECT_FALSE(all.anytime.has_value());
  const PolicyEvaluation& first = evaluation.slots[1].policies[0];
  EXPECT_EQ(first.anytime->low, alone.anytime->low);
  EXPECT_EQ(first.estimates[0].bernstein->low, alone.estimates[0].bernstein->low);
}

}  // namespace
}  // namespace mcnb::evaluation_test
