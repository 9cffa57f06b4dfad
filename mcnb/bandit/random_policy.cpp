#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

// Chooses uniformly and learns nothing: what every other policy has to beat. The draws are
// addressed by the seed and the round's id.
class RandomPolicy final : public BasicPolicy {
 public:
  RandomPolicy(const NoOptions&, const PolicySetup& setup)
      : BasicPolicy(setup), seed_(setup.seed) {}

  std::vector<Score> scores(const Round& round) override {
    check(round);
    Rng rng(seed_, Stream::kPolicy, index(round.id));
    std::vector<Score> scores(round.arms.size());
    for (Score& score : scores) {
      score = Score(0.0, {{"draw", rng.uniform()}});
    }
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override { check(round, arm, reward); }

  std::size_t memory_bytes() const override { return sizeof *this; }

  void save(StateWriter& writer) const override { save_users(writer); }
  void load(StateReader& reader) override { load_users(reader); }

 private:
  std::uint64_t seed_;
};

}  // namespace

PolicyKind random_policy() {
  return policy_kind<RandomPolicy>(
      {.name = "random", .help = "chooses uniformly, learns nothing", .paper = "none"},
      OptionTable<NoOptions>(), [](const NoOptions&, const PolicySetup&) { return PolicySize{}; });
}

}  // namespace mcnb
