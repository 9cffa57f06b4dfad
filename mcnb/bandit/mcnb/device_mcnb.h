#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/mcnb/candidate.h"
#include "mcnb/bandit/mcnb/device/rounds.h"
#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/mcnb/mcnb_options.h"
#include "mcnb/bandit/mcnb/meta_learner.h"
#include "mcnb/bandit/mcnb/unit_arms.h"
#include "mcnb/bandit/policy.h"

namespace mcnb {

// M-CNB whose learners, histories and counts live on a GPU: the decisions and states of Mcnb, bit
// for bit. Scores come from a few hundred numbers per arm that the device returns. Steps that need
// damping are rare; for these, and for `forget`, everything is brought to the CPU and back.
class DeviceMcnb : public Policy {
 public:
  using MakeRounds = std::function<std::unique_ptr<device::Rounds>(const device::RoundSizes&,
                                                                   std::span<const float>)>;

  // Throws Error: kUsage for options that the device lacks, by their names, and what `make` throws.
  DeviceMcnb(const McnbOptions& options, const PolicySetup& setup,
             const MakeRounds& make = device::make_cuda_rounds);

  std::size_t user_count() const override { return learner_of_.size(); }
  void add_users(std::size_t count) override;
  void start(UserId user, const Sample& sample) override;
  ArmIndex choose(const Round& round) override;
  std::vector<Score> scores(const Round& round) override;
  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores_of_part(const Round& round, std::size_t begin,
                                    std::size_t end) override;
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override;
  void learn(RoundId round, const Arm& arm, float reward) override;
  bool forget(UserId user) override;
  StepCounts steps() const override { return steps_; }
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

  device::Rounds& rounds() { return *rounds_; }
  // Gives all users networks and events that were made, for benchmarks (device/made_users.h).
  void make_users(std::uint32_t events_per_user, std::uint64_t seed, float scale);
  // How often everything was brought to the CPU, for damped steps and other rare work.
  std::uint64_t moves_to_host() const { return moves_to_host_; }

 private:
  const NetworkShape& shape() const { return shape_; }
  Candidate candidate(RoundId round, const Arm& arm);
  std::vector<device::PassResult> pass(std::span<const Candidate> arms);
  bool is_in_last_pass(const Candidate& arm, std::size_t& position) const;
  void remember_pass(std::span<const Candidate> arms);
  std::vector<Score> scores_between(const Round& round, std::size_t begin, std::size_t end,
                                    std::uint64_t* adaptation_steps);
  std::optional<Score> score(const Candidate& arm, const device::PassResult& result);
  bool is_ordinary(std::span<const float> learner, const Sample& sample);
  bool learn_there(const Candidate& served, float reward);
  UserId learner_of(UserId user) const { return learner_of_[index(user)]; }
  std::unique_ptr<Mcnb> to_host() const;
  void from_host(const Mcnb& host);
  void change_on_host(const std::function<void(Mcnb&)>& change);

  McnbOptions options_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  NetworkShape shape_;
  std::vector<float> start_;
  std::vector<UserId> learner_of_;           // by user
  std::vector<std::uint8_t> has_own_datum_;  // by learner
  std::uint64_t feedbacks_ = 0;
  StepCounts steps_;
  MetaLearner meta_;  // Theta as the device has it
  std::unique_ptr<device::Rounds> rounds_;
  mutable std::uint64_t moves_to_host_ = 0;

  UnitArms unit_arms_;
  MetaScratch scratch_;
  GradientFactors gradient_;
  std::vector<Candidate> last_pass_;  // their features lie in last_values_
  std::vector<device::PassResult> last_results_;
  std::vector<float> last_values_;
};

}  // namespace mcnb
