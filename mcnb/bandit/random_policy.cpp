#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

// Chooses uniformly, and learns nothing: what every other policy has to beat. The draws are
// addressed by the seed and the round's id.
class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(const PolicySetup& setup)
      : shape_{.inputs = setup.inputs}, users_(setup.users), seed_(setup.seed) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override { users_.add(count); }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, users_.count(), shape_);
  }

  ArmIndex choose(const Round& round) override { return highest(scores(round)); }

  std::vector<Score> scores(const Round& round) override {
    check_round(round, users_.count(), shape_);
    Rng rng(seed_, Stream::kPolicy, index(round.id));
    std::vector<Score> scores(round.arms.size());
    for (Score& score : scores) {
      score.user_bonus = rng.uniform();  // nothing but exploration
      score.value = score.user_bonus;
    }
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check_feedback(round, arm, reward, users_.count(), shape_);
  }

  std::size_t memory_bytes() const override { return sizeof *this; }

  void save(StateWriter& writer) const override { users_.save(writer); }
  void load(StateReader& reader) override { users_.load(reader); }

 private:
  NetworkShape shape_;
  UserCount users_;
  std::uint64_t seed_;
};

OptionValues resolve(const OptionValues& options) {
  if (!options.empty()) {
    refuse_option(options.begin()->first, "no options", options.begin()->second);
  }
  return {};
}

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  resolve(options);
  return std::make_unique<RandomPolicy>(setup);
}

}  // namespace

PolicyKind random_policy() {
  return {.name = "random",
          .help = "chooses uniformly, learns nothing",
          .paper = "none",
          .options = [] { return std::vector<OptionHelp>(); },
          .resolve = resolve,
          .build = build};
}

}  // namespace mcnb
