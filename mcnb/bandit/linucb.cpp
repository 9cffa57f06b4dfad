#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "mcnb/bandit/feature_blocks.h"
#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"
#include "mcnb/base/check.h"
#include "mcnb/numeric/ridge.h"

namespace mcnb {
namespace {

constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications

enum class Users { kOne, kEach };

struct LinUcbOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  Users users = Users::kOne;
};

OptionTable<LinUcbOptions> option_table() {
  OptionTable<LinUcbOptions> table;
  table.number("lambda", &LinUcbOptions::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &LinUcbOptions::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .choice("users", &LinUcbOptions::users, {{"one", Users::kOne}, {"each", Users::kEach}},
              "one state for all users, or one for each");
  return table;
}

LinUcbOptions parse(const OptionValues& values) {
  LinUcbOptions options;
  option_table().set_all(options, values);
  return options;
}

// LinUCB: a ridge regression for all users together, or one for each user, made when the user first
// gets data. Scores an arm by x.w + alpha sqrt(x^T M^-1 x * log(1 + t)). t is 1 + the rewards
// learned so far, of all users, start data not counted: with immediate feedback the number of the
// round, from 1, so that the bonus is never zero for want of a logarithm.
//
// Feature blocks must be equal or disjoint. Then M is block diagonal, and each block has a ridge
// state of its own: an arm costs the square of its own features, not of the whole vector. Blocks
// that overlap in part are refused (Error, kInput), as are blocks of more than 16,384 features.
class LinUcb final : public Policy {
 public:
  LinUcb(const LinUcbOptions& options, const PolicySetup& setup)
      : options_(options),
        shape_{.inputs = setup.inputs},
        users_(setup.users),
        threads_(*setup.threads) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override { users_.add(count); }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, users_.count(), shape_);
    blocks_.check(sample.features, fmt::format("start of user {}", index(user)));
    state_to_change(user, sample.features).add(sample.features.values, sample.reward);
  }

  ArmIndex choose(const Round& round) override { return highest(scores(round)); }

  std::vector<Score> scores(const Round& round) override {
    check_round(round, users_.count(), shape_);
    blocks_.check(round);
    std::size_t longest = 1;
    for (const Arm& arm : round.arms) {
      longest = std::max(longest, arm.features.values.size());
    }
    const double time = 1.0 + static_cast<double>(rewards_);
    const double scale = options_.alpha * std::sqrt(std::log(1.0 + time));
    std::vector<Score> scores(round.arms.size());
    threads_.parallel_for(scores.size(),
                          std::max<std::size_t>(1, kWorthAThread / (longest * longest)),
                          [&](std::size_t begin, std::size_t end) {
                            for (std::size_t i = begin; i < end; ++i) {
                              scores[i] = score(round.arms[i], scale);
                            }
                          });
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check_feedback(round, arm, reward, users_.count(), shape_);
    blocks_.check(arm.features,
                  fmt::format("feedback on round {}, arm {}", index(round), index(arm.index)));
    state_to_change(arm.user, arm.features).add(arm.features.values, reward);
    ++rewards_;
  }

  std::size_t memory_bytes() const override {
    std::size_t bytes = sizeof *this + blocks_.memory_bytes() +
                        places_.size() * (sizeof(Key) + sizeof(std::uint32_t) + sizeof(void*)) +
                        places_.bucket_count() * sizeof(void*) +
                        keys_.capacity() * sizeof keys_[0] + states_.capacity() * sizeof states_[0];
    for (const RidgeState& state : states_) {
      bytes += 2 * (state.dimension() + 1) * state.dimension() * sizeof(double);
    }
    return bytes;
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    blocks_.save(writer);
    writer.write(rewards_);
    writer.write_all(keys_);
    for (const RidgeState& state : states_) {
      state.save(writer);
    }
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    blocks_.load(reader, shape_);
    rewards_ = reader.read<std::uint64_t>();
    keys_ = reader.read_all<Key>(std::uint64_t{0xffffffff});
    places_.clear();
    states_.clear();
    for (const Key key : keys_) {
      const std::size_t block = key & 0xffffffffU;
      const bool known = block < blocks_.size() && (key >> 32) < users_.count();
      if (!known || !places_.emplace(key, states_.size()).second) {
        reader.fail("a ridge state belongs to nobody");
      }
      states_.push_back(RidgeState::load(reader));
      if (states_.back().dimension() != blocks_.length(block) ||
          states_.back().lambda() != options_.lambda) {
        reader.fail("a ridge state does not fit its block");
      }
    }
  }

 private:
  using Key = std::uint64_t;  // user and block

  Key key(UserId user, std::uint32_t block) const {
    return (options_.users == Users::kEach ? Key{index(user)} << 32 : Key{0}) | block;
  }

  Score score(const Arm& arm, double scale) const {
    Score score;
    double uncertainty = 0.0;
    if (const RidgeState* state = find_state(arm)) {
      score.estimate = state->estimate(arm.features.values);
      uncertainty = state->uncertainty(arm.features.values);
    } else {  // M = lambda I
      double squares = 0.0;
      for (const float value : arm.features.values) {
        squares += static_cast<double>(value) * value;
      }
      uncertainty = std::sqrt(squares / options_.lambda);
    }
    // The one state of all users is the shared model.
    double& bonus = options_.users == Users::kOne ? score.meta_bonus : score.user_bonus;
    bonus = scale * uncertainty;
    score.value = score.estimate + bonus;
    score.cluster_size = options_.users == Users::kOne ? users_.count() : 1;
    return score;
  }

  const RidgeState* find_state(const Arm& arm) const {
    const std::optional<std::uint32_t> block = blocks_.find(arm.features);
    if (!block) {
      return nullptr;
    }
    const auto found = places_.find(key(arm.user, *block));
    return found == places_.end() ? nullptr : &states_[found->second];
  }

  RidgeState& state_to_change(UserId user, const Features& features) {
    const Key place = key(user, blocks_.find_or_add(features));
    const auto found = places_.find(place);
    if (found != places_.end()) {
      return states_[found->second];
    }
    states_.emplace_back(features.values.size(), options_.lambda);
    keys_.push_back(place);
    places_.emplace(place, static_cast<std::uint32_t>(states_.size() - 1));
    return states_.back();
  }

  LinUcbOptions options_;
  NetworkShape shape_;
  UserCount users_;
  ThreadPool& threads_;
  FeatureBlocks blocks_;
  std::uint64_t rewards_ = 0;
  std::unordered_map<Key, std::uint32_t> places_;  // in states_
  std::vector<Key> keys_;                          // of states_
  std::vector<RidgeState> states_;
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<LinUcb>(parse(options), setup);
}

}  // namespace

PolicyKind linucb_policy() {
  return {.name = "linucb",
          .help = "ridge regression with upper confidence bounds, for all users or for each",
          .paper =
              "Li, Chu, Langford, Schapire: A Contextual-Bandit Approach to Personalized News "
              "Article Recommendation, WWW 2010",
          .options = [] { return option_table().help(); },
          .resolve = [](const OptionValues& o) { return option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
