// A policy of your own, compared with built-in policies in the synthetic world.
// docs/TUTORIAL_CPP.md explains it.

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/environment/environments.h"
#include "mcnb/experiment/run/runner.h"

namespace {

// One linear model per user, trained by a gradient step per reward. In every tenth round the policy
// tries a random arm. A policy of one's own writes five functions: scores, learn, memory_bytes,
// save and load.
class LinearGreedy : public mcnb::BasicPolicy {
 public:
  explicit LinearGreedy(const mcnb::PolicySetup& setup)
      : BasicPolicy(setup), seed_(setup.seed), inputs_(setup.inputs) {}

  // The random numbers of a round are addressed by its id, so the same round gives the same scores.
  std::vector<mcnb::Score> scores(const mcnb::Round& round) override {
    check(round);
    mcnb::Rng rng(seed_, mcnb::Stream::kPolicy, static_cast<std::uint64_t>(round.id));
    const bool explores = rng.chance(0.1);
    std::vector<mcnb::Score> scores;
    for (const mcnb::Arm& arm : round.arms) {
      const double luck = explores ? 1000.0 * rng.uniform() : 0.0;
      scores.push_back(mcnb::Score(estimate(arm), {{"luck", luck}}));
    }
    return scores;
  }

  void learn(mcnb::RoundId round, const mcnb::Arm& arm, float reward) override {
    check(round, arm, reward);
    const double error = reward - estimate(arm);
    std::vector<double>& weights = weights_[arm.user];
    weights.resize(inputs_);
    for (std::size_t i = 0; i < arm.features.values.size(); ++i) {
      weights[arm.features.offset + i] += 0.3 * error * arm.features.values[i];
    }
  }

  std::size_t memory_bytes() const override { return weights_.size() * inputs_ * sizeof(double); }

  void save(mcnb::StateWriter& writer) const override {
    save_users(writer);
    writer.write_count(weights_.size());
    for (const auto& [user, weights] : weights_) {
      writer.write(user);
      for (const double weight : weights) writer.write(weight);
    }
  }
  void load(mcnb::StateReader& reader) override {
    load_users(reader);
    weights_.clear();
    for (std::uint64_t left = reader.read_count(user_count()); left > 0; --left) {
      std::vector<double>& weights = weights_[reader.read<mcnb::UserId>()];
      for (std::size_t i = 0; i < inputs_; ++i) weights.push_back(reader.read<double>());
    }
  }

 private:
  double estimate(const mcnb::Arm& arm) const {
    const auto found = weights_.find(arm.user);
    if (found == weights_.end()) return 0.0;
    double sum = 0.0;
    for (std::size_t i = 0; i < arm.features.values.size(); ++i) {
      sum += found->second[arm.features.offset + i] * arm.features.values[i];
    }
    return sum;
  }

  std::uint64_t seed_;
  std::size_t inputs_;
  std::map<mcnb::UserId, std::vector<double>> weights_;  // of users who have learned
};

// The regret of a policy after 2,000 rounds, in a fresh copy of the same world.
double regret_of(const std::string& name, mcnb::ThreadPool& threads) {
  const std::unique_ptr<mcnb::Environment> world = mcnb::make_environment(
      {.name = "synthetic", .options = {{"users", "20"}}, .data = nullptr}, 1);
  const mcnb::PolicySetup setup = mcnb::setup_for(*world, 1, threads);
  const std::unique_ptr<mcnb::Policy> policy =
      name == "linear-greedy" ? std::make_unique<LinearGreedy>(setup)
                              : mcnb::make_policy(mcnb::parse_policy(name), setup);
  mcnb::RunControl control;
  return mcnb::play(*world, *policy, 2000, control)->regret;
}

}  // namespace

int main() try {
  mcnb::ThreadPool threads(2);
  std::map<std::string, double> regret;
  for (const char* name : {"linear-greedy", "mcnb", "linucb:users=each", "random"}) {
    regret[name] = regret_of(name, threads);
    std::printf("%-18s regret %6.1f\n", name, regret[name]);
  }
  return regret["linear-greedy"] < 0.8 * regret["random"] ? 0 : 1;
} catch (const mcnb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
