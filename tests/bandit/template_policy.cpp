// A whole policy, to be copied to mcnb/bandit/NAME.cpp. CONTRIBUTING.md lists the steps; the test
// `template_policy` follows them with this file.

#include <algorithm>
#include <cmath>
#include <vector>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/policy_kind.h"

namespace mcnb {
namespace {

struct TemplateOptions {
  double alpha = 0.1;
};

OptionTable<TemplateOptions> option_table() {
  OptionTable<TemplateOptions> table;
  table.number("alpha", &TemplateOptions::alpha, {0.0, 1e6}, "weight of the uncertainty");
  return table;
}

// UCB1 on the mean reward of each position in the round; it ignores the features of arms. If n of
// all t rewards came from an arm's position, its score is mean + alpha sqrt(log(1 + t) / (1 + n)).
class TemplatePolicy final : public BasicPolicy {
 public:
  TemplatePolicy(const TemplateOptions& options, const PolicySetup& setup)
      : BasicPolicy(setup), options_(options) {}

  std::vector<Score> scores(const Round& round) override {
    check(round);
    std::vector<Score> scores;
    for (const Arm& arm : round.arms) {
      const Mean mean = mean_of(arm.index);
      const double bonus = options_.alpha * std::sqrt(std::log1p(rewards_) / (1.0 + mean.count));
      scores.push_back(Score(mean.value(), {{"uncertainty", bonus}}));
    }
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    means_.resize(std::max(means_.size(), index(arm.index) + 1));
    Mean& mean = means_[index(arm.index)];
    mean.sum += reward;
    mean.count += 1.0;
    rewards_ += 1.0;
  }

  std::size_t memory_bytes() const override {
    return sizeof *this + means_.capacity() * sizeof means_[0];
  }

  void save(StateWriter& writer) const override {
    save_users(writer);
    writer.write(rewards_);
    writer.write(static_cast<std::uint64_t>(means_.size()));
    for (const Mean& mean : means_) {
      writer.write(mean.sum);
      writer.write(mean.count);
    }
  }

  void load(StateReader& reader) override {
    load_users(reader);
    rewards_ = reader.read<double>();
    const auto count = reader.read<std::uint64_t>();
    if (count > kMostArms) {
      reader.fail("more positions than a round has arms");
    }
    means_.resize(static_cast<std::size_t>(count));
    for (Mean& mean : means_) {
      mean.sum = reader.read<double>();
      mean.count = reader.read<double>();
    }
  }

 private:
  struct Mean {
    double sum = 0.0;
    double count = 0.0;

    double value() const { return count == 0.0 ? 0.0 : sum / count; }
  };

  Mean mean_of(ArmIndex arm) const {
    return index(arm) < means_.size() ? means_[index(arm)] : Mean{};
  }

  TemplateOptions options_;
  double rewards_ = 0.0;
  std::vector<Mean> means_;  // by position
};

}  // namespace

PolicyKind template_policy() {
  return policy_kind<TemplatePolicy>(
      {.name = "template",
       .help = "the mean reward of each position, with upper confidence bounds",
       .paper = "Auer, Cesa-Bianchi, Fischer: Finite-time Analysis of the Multiarmed Bandit "
                "Problem, Machine Learning 2002"},
      option_table(), [](const TemplateOptions&, const PolicySetup&) {
        return PolicySize{.fixed_bytes = 100.0, .arm_operations = 10.0};
      });
}

}  // namespace mcnb
