#include "mcnb/experiment/run/experiment_policies.h"

#include <sstream>

namespace mcnb {
namespace {

class Oracle final : public Policy {
 public:
  Oracle(const Environment& environment, std::size_t users)
      : environment_(environment), users_(users) {}

  std::size_t user_count() const override { return users_; }
  void add_users(std::size_t count) override { users_ += count; }
  void start(UserId, const Sample&) override {}
  ArmIndex choose(const Round& round) override { return highest(scores(round)); }
  std::vector<Score> scores(const Round& round) override {
    std::vector<Score> scores;
    for (const Arm& arm : round.arms) {
      const double expected = environment_.expected_reward(arm.index);
      scores.push_back(Score(expected));
    }
    return scores;
  }
  void learn(RoundId, const Arm&, float) override {}
  std::size_t memory_bytes() const override { return sizeof *this; }
  void save(StateWriter& writer) const override {
    writer.write(static_cast<std::uint64_t>(users_));
  }
  void load(StateReader& reader) override {
    users_ = static_cast<std::size_t>(reader.read<std::uint64_t>());
  }

 private:
  const Environment& environment_;
  std::size_t users_;
};

PolicySpec parse_one(const std::string& text) {
  if (text == kOracle) {
    return {.name = text, .options = {}, .label = text};
  }
  if (text.starts_with(std::string(kOracle) + ":")) {
    refuse_option("policy", "oracle without options", text);
  }
  return parse_policy(text);
}

}  // namespace

std::vector<PolicySpec> parse_policies(const std::string& text) {
  std::vector<PolicySpec> policies;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    for (const PolicySpec& other : policies) {
      if (other.label == part) {
        refuse_option("policy", "every policy once", part);
      }
    }
    policies.push_back(parse_one(part));
  }
  if (policies.empty()) {
    refuse_option("policy", "names of policies, separated by commas", text);
  }
  return policies;
}

std::vector<PolicyHelp> experiment_policy_help() {
  std::vector<PolicyHelp> all = policy_help();
  all.push_back({kOracle, "knows the expected rewards and chooses the best arm", "none", {}});
  return all;
}

std::vector<PolicySpec> fitted_to(const EnvironmentSpec& environment,
                                  std::vector<PolicySpec> policies) {
  for (PolicySpec& policy : policies) {
    if (policy.name == "mcnb" && is_classification(environment)) {
      policy.options.emplace("preset", "default-classification");
    }
  }
  return policies;
}

std::unique_ptr<Policy> make_experiment_policy(const PolicySpec& spec, const PolicySetup& setup,
                                               const Environment& environment) {
  if (spec.name == kOracle) {
    return std::make_unique<Oracle>(environment, setup.users);
  }
  return make_policy(spec, setup);
}

}  // namespace mcnb
