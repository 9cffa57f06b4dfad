#include "bench/learning_players.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "mcnb/base/random.h"
#include "mcnb/serve/model/exploration.h"

namespace mcnb::bench {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::int64_t kMilliseconds = 1000;  // between two decisions

std::int64_t time_of(std::uint64_t number) {
  return kMilliseconds * static_cast<std::int64_t>(number + 1);
}

// What players outside the service have in common: exploration and waiting for rewards.
class PlainPlayer : public LearningPlayer {
 public:
  explicit PlainPlayer(const ModelOptions& options) : options_(options) {}

  std::size_t choose(std::uint64_t number, const LearningRound& round) override {
    const double waiting = options_.waiting_seconds * 1000.0 / static_cast<double>(kMilliseconds);
    while (!waiting_.empty() &&
           static_cast<double>(waiting_.begin()->first) + waiting <= static_cast<double>(number)) {
      learn(waiting_.begin()->second, static_cast<float>(options_.default_reward));
      waiting_.erase(waiting_.begin());
    }
    const std::size_t best = best_of(round);
    const std::vector<double> chances =
        epsilon_floor(round.request.eligible, best, options_.epsilon);
    const std::size_t chosen =
        draw_action(chances, Rng(options_.seed, Stream::kServedAction, number));
    const auto dimension = static_cast<std::ptrdiff_t>(options_.dimension);
    const auto begin =
        round.request.features.begin() + static_cast<std::ptrdiff_t>(chosen) * dimension;
    waiting_.emplace(number, Shown{round.request.user_id, {begin, begin + dimension}});
    return chosen;
  }

  void reward(std::uint64_t number, float value) override {
    const auto found = waiting_.find(number);
    if (found != waiting_.end()) {
      learn(found->second, value);
      waiting_.erase(found);
    }
  }

 protected:
  struct Shown {
    std::string user;
    std::vector<float> features;
  };
  virtual std::size_t best_of(const LearningRound& round) = 0;
  virtual void learn(const Shown&, float) {}
  const ModelOptions& options() const { return options_; }

 private:
  const ModelOptions options_;
  std::map<std::uint64_t, Shown> waiting_;
};

class CeilingPlayer : public PlainPlayer {
 public:
  using PlainPlayer::PlainPlayer;

 private:
  std::size_t best_of(const LearningRound& round) override {
    const auto best = std::ranges::max_element(round.expected);
    return static_cast<std::size_t>(best - round.expected.begin());
  }
};

class RandomPlayer : public PlainPlayer {
 public:
  using PlainPlayer::PlainPlayer;

 private:
  std::size_t best_of(const LearningRound& round) override {
    return Rng(options().seed, Stream::kBenchmark, number_++).below(round.expected.size());
  }

  std::uint64_t number_ = 0;
};

// Rewards are w . x + noise with w ~ N(0, I): the value of an action is its expected reward and
// some standard deviations.
class LinearPlayer : public PlainPlayer {
 public:
  LinearPlayer(const ModelOptions& options, bool per_user)
      : PlainPlayer(options), per_user_(per_user) {}

 private:
  static constexpr double kNoise = 0.2;  // variance of a reward of 0 or 1, about
  static constexpr double kAlpha = 0.3;

  struct Posterior {
    MatrixXd covariance;
    VectorXd weighted;  // sum of rewards times features, in units of the noise's variance
  };

  Posterior& of(const std::string& user) {
    const auto [found, is_new] = posteriors_.try_emplace(per_user_ ? user : std::string());
    if (is_new) {
      const auto size = static_cast<Eigen::Index>(options().dimension);
      found->second = {MatrixXd::Identity(size, size), VectorXd::Zero(size)};
    }
    return found->second;
  }

  std::size_t best_of(const LearningRound& round) override {
    const Posterior& posterior = of(round.request.user_id);
    const VectorXd mean = posterior.covariance * posterior.weighted;
    const auto count = static_cast<Eigen::Index>(round.expected.size());
    const Eigen::Map<const Eigen::MatrixXf> arms(round.request.features.data(), mean.size(), count);
    std::size_t best = 0;
    double highest = -1e300;
    for (Eigen::Index i = 0; i < count; ++i) {
      const VectorXd arm = arms.col(i).cast<double>();
      const double value = arm.dot(mean) + kAlpha * std::sqrt(arm.dot(posterior.covariance * arm));
      if (value > highest) {
        highest = value;
        best = static_cast<std::size_t>(i);
      }
    }
    return best;
  }

  void learn(const Shown& shown, float reward) override {
    Posterior& posterior = of(shown.user);
    const VectorXd arm =
        Eigen::Map<const Eigen::VectorXf>(shown.features.data(), posterior.weighted.size())
            .cast<double>();
    const VectorXd direction = posterior.covariance * arm;
    posterior.covariance -= direction * direction.transpose() / (kNoise + arm.dot(direction));
    posterior.weighted += static_cast<double>(reward) / kNoise * arm;
  }

  const bool per_user_;
  std::unordered_map<std::string, Posterior> posteriors_;
};

}  // namespace

ServedPlayer::ServedPlayer(const ModelOptions& model, ThreadPool& threads,
                           std::span<const ChallengerOptions> challengers)
    : model_(model, threads), preferred_(1 + challengers.size()) {
  for (std::size_t i = 0; i < challengers.size(); ++i) {
    apply(ChallengerBegin{0, std::to_string(i), option_values(challengers[i])});
  }
}

std::size_t ServedPlayer::choose(std::uint64_t number, const LearningRound& round) {
  const std::int64_t time = time_of(number);
  tend_fits();
  if (const std::uint32_t due = model_.due(time, kMostActions); due > 0) {
    apply(Expiry{time, due});
  }
  if (model_.needs_arrival(round.request.user_id)) {
    apply(Arrival{model_.user_key(round.request.user_id)});
  }
  const RankRequest* const request = &round.request;
  const Decision decision = model_.decide({&request, 1}, time).front();
  apply(decision);
  last_ = number;
  preferred_[0].push_back(round.expected[decision.preferred]);
  for (std::size_t i = 0; i < decision.challenged.size(); ++i) {
    preferred_[i + 1].push_back(round.expected[decision.challenged[i]]);
  }
  return decision.chosen;
}

void ServedPlayer::reward(std::uint64_t number, float value) {
  apply(mcnb::Reward{std::to_string(number), "", time_of(last_), value});
}

// A fit that is due begins now and ends before the next decision.
void ServedPlayer::tend_fits() {
  model_.learn_now();
  const std::vector<Model::Fit> fits = model_.fits_in_progress();
  for (const Model::Fit& fit : fits) {
    fit.fit->run();
    apply(FitResult{fit.fit->result(), fit.challenger});
  }
  const std::optional<std::string> due = model_.due_fit();
  if (fits.empty() && due) {
    apply(FitBegin{*due});
  }
}

ModelOptions learning_model(const PolicySpec& policy, std::uint64_t seed) {
  ModelOptions model;
  model.policy = policy;
  model.seed = seed;
  bound_histories(model);
  return model;
}

std::unique_ptr<LearningPlayer> make_served_player(const ModelOptions& model, ThreadPool& threads) {
  return std::make_unique<ServedPlayer>(model, threads);
}

std::unique_ptr<LearningPlayer> make_ceiling_player(const ModelOptions& model) {
  return std::make_unique<CeilingPlayer>(model);
}

std::unique_ptr<LearningPlayer> make_random_player(const ModelOptions& model) {
  return std::make_unique<RandomPlayer>(model);
}

std::unique_ptr<LearningPlayer> make_linear_player(const ModelOptions& model, bool per_user) {
  return std::make_unique<LinearPlayer>(model, per_user);
}

std::vector<double> play_learning(const LearningScenario& scenario, std::uint64_t seed,
                                  std::uint64_t rounds, const ModelOptions& model,
                                  LearningPlayer& player) {
  struct Coming {
    std::uint64_t when;
    std::uint64_t number;
    float value;

    auto operator<=>(const Coming&) const = default;
  };
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming;
  LearningWorld world(scenario, seed);
  std::vector<double> values;
  for (std::uint64_t number = 0; number < rounds; ++number) {
    for (; !coming.empty() && coming.top().when <= number; coming.pop()) {
      player.reward(coming.top().number, coming.top().value);
    }
    const LearningRound round = world.round(number, model);
    const std::size_t chosen = player.choose(number, round);
    values.push_back(round.expected[chosen]);
    if (const std::optional<std::uint64_t> when = world.reward_comes(number)) {
      coming.push({*when, number, world.reward(number, chosen, values.back())});
    }
  }
  return values;
}

}  // namespace mcnb::bench
