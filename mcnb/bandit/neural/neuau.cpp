#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/input_names.h"
#include "mcnb/bandit/neural/neuucb.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Appends the features of users to those of arms.
//
// A block of features stays a block: in the longer vector, every block is followed by room for a
// user's features. So each block has its own weights for them, and an arm costs no more than its
// own features and those of one user.
class Concatenation {
 public:
  // Throws Error (kUsage) for a setup without features of the users.
  explicit Concatenation(const PolicySetup& setup)
      : count_(setup.user_feature_count),
        block_(setup.block_length > 0 ? setup.block_length : setup.inputs),
        users_(setup.user_features.begin(), setup.user_features.end()) {
    if (count_ == 0 || users_.size() != setup.users * count_) {
      throw Error(
          ErrorKind::kUsage,
          count_ == 0
              ? std::string("expected features of the users, got none")
              : fmt::format("expected features of the users, {} of each of {}, got {} in all",
                            count_, setup.users, users_.size()));
    }
    if (!std::ranges::all_of(users_, [](float value) { return std::isfinite(value); })) {
      throw Error(ErrorKind::kUsage, "expected features of the users that are finite");
    }
    if (block_ == 0 || setup.inputs % block_ != 0) {
      throw Error(
          ErrorKind::kUsage,
          fmt::format("{} inputs: expected a multiple of the {} of a block", setup.inputs, block_));
    }
    const std::uint64_t inputs = setup.inputs + setup.inputs / block_ * std::uint64_t{count_};
    if (inputs > NetworkShape::kMaxInputs) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("inputs with the users' features: expected at most {}, got {}",
                              NetworkShape::kMaxInputs, inputs));
    }
    inputs_ = static_cast<std::uint32_t>(inputs);
  }

  // The inputs of the longer vector, and the length of a block in it.
  std::uint32_t inputs() const { return inputs_; }
  std::size_t length() const { return block_ + count_; }
  std::size_t memory_bytes() const { return users_.capacity() * sizeof users_[0]; }

  // Writes length() numbers to `room`, which the result borrows. Users who came after the start
  // have features of zero. Throws Error (kInput), naming where(), for features that are no block.
  template <class Where>
  Features join(const Features& features, UserId user, float* room, Where where) const {
    if (features.values.size() != block_ || features.offset % block_ != 0) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected {} features at a multiple of that, got {} at {}",
                              where(), block_, features.values.size(), features.offset));
    }
    float* const end = std::ranges::copy(features.values, room).out;
    if (index(user) < users_.size() / count_) {
      std::copy_n(users_.data() + index(user) * count_, count_, end);
    } else {
      std::fill_n(end, count_, 0.0F);
    }
    const std::size_t offset = features.offset / block_ * length();
    return {{room, length()}, static_cast<std::uint32_t>(offset)};
  }

 private:
  std::size_t count_;  // features of a user
  std::uint32_t block_;
  std::vector<float> users_;
  std::uint32_t inputs_ = 0;
};

// NeuA+U: NeuUCB-ONE on the features of the arm, followed by those of the arm's user.
class NeuAu final : public Policy {
 public:
  NeuAu(const NeuUcbOptions& options, const PolicySetup& setup)
      : shape_{.inputs = setup.inputs}, features_(setup) {
    PolicySetup longer = setup;
    longer.inputs = features_.inputs();
    bandit_ = make_neuucb_one(options, longer);
  }

  std::size_t user_count() const override { return bandit_->user_count(); }
  void add_users(std::size_t count) override { bandit_->add_users(count); }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, user_count(), shape_);
    room_.resize(features_.length());
    const Features both =
        features_.join(sample.features, user, room_.data(), [&] { return start_name(user); });
    bandit_->start(user, {both, sample.reward});
  }

  ArmIndex choose(const Round& round) override { return bandit_->choose(joined(round)); }
  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override { return bandit_->scores(joined(round)); }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check_feedback(round, arm, reward, user_count(), shape_);
    room_.resize(features_.length());
    Arm both = arm;
    both.features = features_.join(arm.features, arm.user, room_.data(),
                                   [&] { return feedback_name(round, arm); });
    bandit_->learn(round, both, reward);
  }

  StepCounts steps() const override { return bandit_->steps(); }
  std::size_t memory_bytes() const override {
    return sizeof *this + features_.memory_bytes() + bandit_->memory_bytes();
  }
  void save(StateWriter& writer) const override { bandit_->save(writer); }
  void load(StateReader& reader) override { bandit_->load(reader); }

 private:
  // The round with longer features, which are valid until the next call.
  const Round& joined(const Round& round) {
    check_round(round, user_count(), shape_);
    round_ = round;
    room_.resize(round.arms.size() * features_.length());
    for (std::size_t i = 0; i < round.arms.size(); ++i) {
      Arm& arm = round_.arms[i];
      arm.features = features_.join(arm.features, arm.user, room_.data() + i * features_.length(),
                                    [&] { return arm_name(round.id, i); });
    }
    return round_;
  }

  NetworkShape shape_;
  Concatenation features_;
  std::unique_ptr<Policy> bandit_;
  std::vector<float> room_;
  Round round_;
};

}  // namespace

PolicyKind neuau_policy() {
  return policy_kind<NeuAu>(
      {.name = "neuau",
       .help = "one neural network that sees the features of arm and user",
       .paper = "a baseline of Ban, Qi, Wei, Liu, He: Meta Clustering of Neural Bandits, KDD 2024"},
      neuucb_option_table(), [](const NeuUcbOptions& options, const PolicySetup& setup) {
        const std::size_t block = setup.block_length > 0 ? setup.block_length : setup.inputs;
        const NetworkShape shape = options.neural.network.shape(static_cast<std::uint32_t>(
            setup.inputs +
            setup.inputs / std::max<std::size_t>(block, 1) * setup.user_feature_count));
        PolicySize size =
            network_policy_size(shape, ConfidenceMatrix::kind_of(options.confidence, shape));
        size.idle_bytes = 4.0 * static_cast<double>(setup.user_feature_count);
        return size;
      });
}

}  // namespace mcnb
