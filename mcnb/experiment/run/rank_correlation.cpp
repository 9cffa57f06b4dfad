#include "mcnb/experiment/run/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "mcnb/base/check.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

const StateHeader kState{"order-of-arms", 1};  // lives only in memory

// Equal values share their mean rank.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    }
    begin = end;
  }
  return ranks;
}

std::vector<double> values_of(const std::vector<Score>& scores) {
  std::vector<double> values;
  for (const Score& score : scores) {
    values.push_back(score.value);
  }
  return values;
}

}  // namespace

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  check(a.size() == b.size() && !a.empty(), "ranks are compared pair by pair");
  const std::vector<double> ranks_a = ranks_of(a);
  const std::vector<double> ranks_b = ranks_of(b);
  const double middle = 0.5 * static_cast<double>(a.size() - 1);
  double products = 0.0;
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products += (ranks_a[i] - middle) * (ranks_b[i] - middle);
    squares_a += (ranks_a[i] - middle) * (ranks_a[i] - middle);
    squares_b += (ranks_b[i] - middle) * (ranks_b[i] - middle);
  }
  if (squares_a == 0.0 || squares_b == 0.0) {
    return squares_a == squares_b ? 1.0 : 0.0;
  }
  return products / std::sqrt(squares_a * squares_b);
}

std::vector<RankAgreement> compare_ranks(const Experiment& experiment,
                                         const std::vector<PolicySpec>& specs,
                                         const std::vector<std::string>& values,
                                         std::uint64_t stride, const RunControl& control) {
  check(stride > 0 && !specs.empty() && specs.size() == values.size(), "a policy for each value");
  const std::unique_ptr<Environment> environment =
      make_environment(experiment.environment, experiment.options.first_seed);
  ThreadPool alone(1);
  const PolicySetup setup = setup_for(*environment, experiment.options.first_seed, alone);
  std::vector<std::unique_ptr<Policy>> policies;
  std::vector<RankAgreement> agreement;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    policies.push_back(make_policy(specs[i], setup));
    agreement.push_back({values[i]});
  }
  Policy& playing = *policies.front();
  double compared = 0.0;
  for (const StartDatum& datum : environment->start_data()) {
    playing.start(datum.user, datum.sample);
  }
  for (std::uint64_t t = 1; t <= experiment.options.rounds; ++t) {
    if (control.stop) {
      return {};
    }
    const Round& round = environment->next_round();
    if (t % stride == 0) {
      std::stringstream state;
      StateWriter writer(state, "the state", kState);
      playing.save(writer);
      writer.finish();
      const std::vector<Score> first = playing.scores(round);
      for (std::size_t i = 0; i < policies.size(); ++i) {
        std::vector<Score> scores = first;
        if (i > 0) {
          state.clear();
          state.seekg(0);
          StateReader reader(state, "the state", kState);
          policies[i]->load(reader);
          scores = policies[i]->scores(round);
        }
        agreement[i].correlation += rank_correlation(values_of(first), values_of(scores));
        agreement[i].same_choice += highest(first) == highest(scores) ? 1.0 : 0.0;
      }
      compared += 1.0;
    }
    const ArmIndex arm = playing.choose(round);
    playing.learn(round.id, round.arms[index(arm)], environment->reward(arm));
  }
  for (RankAgreement& one : agreement) {
    one.correlation /= std::max(compared, 1.0);
    one.same_choice /= std::max(compared, 1.0);
  }
  return agreement;
}

}  // namespace mcnb
