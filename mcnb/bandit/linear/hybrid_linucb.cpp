#include "mcnb/bandit/linear/hybrid_linucb.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/linear/hybrid_ridge.h"
#include "mcnb/bandit/linear/linear_state.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Hybrid LinUCB: a reward is z.beta + o.theta_u, with coefficients beta that all users share and
// theta_u of the arm's user. An arm's score is
//   mean + alpha sqrt(variance * log(1 + t))
// of the joint ridge regression over all of them (hybrid_ridge.h).
//
// If each arm's features are one block of a longer vector, z and o are made of the block's numbers,
// and a user has coefficients of its own for every block.
class HybridLinUcb final : public BasicPolicy {
 public:
  HybridLinUcb(const HybridLinUcbOptions& options, const PolicySetup& setup)
      : BasicPolicy(setup),
        alpha_(options.alpha),
        inputs_(setup.inputs),
        block_length_(setup.block_length),
        ridge_(check_size(arm_length(), options.products), options.products, options.lambda),
        threads_(*setup.threads) {}

  void start(UserId user, const Sample& sample) override {
    check(user, sample);
    check_block(sample.features, [&] { return fmt::format("start of user {}", index(user)); });
    add(user, sample.features, sample.reward);
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    check(round);
    for (const Arm& arm : round.arms) {
      check_block(arm.features, [&] {
        return fmt::format("round {}, arm {}", index(round.id), index(arm.index));
      });
    }
    const double scale = exploration_scale(alpha_, rewards_);
    std::vector<Score> scores(round.arms.size());
    for_all_arms(round, threads_, [&](std::size_t begin, std::size_t end) {
      std::vector<float> room;
      for (std::size_t i = begin; i < end; ++i) {
        const Arm& arm = round.arms[i];
        const auto [mean, deviation] = ridge_.predict(find_learner(key_of(arm.user, arm.features)),
                                                      numbers_of(arm.features, room));
        scores[i] = Score(mean, {{"uncertainty", scale * deviation}}, user_count());
      }
    });
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    check_block(arm.features, [&] {
      return fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
    });
    add(arm.user, arm.features, reward);
    ++rewards_;
  }

  // The shared coefficients keep what they took from the user's samples.
  bool forget(UserId user) override {
    check_user(user);
    for (std::size_t i = keys_.size(); i-- > 0;) {
      if (owner_of(keys_[i]) == user) {
        remove_learner(i);
      }
    }
    return true;
  }

  std::size_t memory_bytes() const override {
    constexpr std::size_t kMapNode = 3 * sizeof(std::uint64_t);
    return sizeof *this - sizeof ridge_ + ridge_.memory_bytes() +
           keys_.capacity() * sizeof keys_[0] + learners_.size() * kMapNode +
           learners_.bucket_count() * sizeof(void*);
  }

  void save(StateWriter& writer) const override {
    save_users(writer);
    writer.write_all(keys_);
    ridge_.save(writer);
    writer.write(rewards_);
  }

  void load(StateReader& reader) override {
    constexpr std::uint64_t kMostLearners = std::uint64_t{1} << 40;
    load_users(reader);
    keys_ = reader.read_all<std::uint64_t>(kMostLearners);
    learners_.clear();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (index(owner_of(keys_[i])) >= user_count() || !learners_.emplace(keys_[i], i).second) {
        reader.fail("the coefficients of a hybrid model belong to a user that cannot have them");
      }
    }
    ridge_.load(reader, keys_.size());
    rewards_ = reader.read<std::uint64_t>();
  }

 private:
  std::size_t arm_length() const { return block_length_ > 0 ? block_length_ : inputs_; }

  static std::size_t check_size(std::size_t length, bool products) {
    const std::size_t shared = HybridRidge::shared_count(length, products);
    if (shared > HybridRidge::kMostShared) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("option users: hybrid takes at most {} shared coefficients; arms of "
                              "{} features need {}{}",
                              HybridRidge::kMostShared, length, shared,
                              products ? ", fewer with products=no" : ""));
    }
    return length;
  }

  template <class What>
  void check_block(const Features& features, What what) const {
    if (block_length_ > 0 &&
        (features.values.size() != block_length_ || features.offset % block_length_ != 0)) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: expected a block of {} features at a multiple of {}, got {} at {}",
                      what(), block_length_, block_length_, features.values.size(),
                      features.offset));
    }
  }

  void check_user(UserId user) const {
    if (index(user) >= user_count()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("user {} is unknown, there are {} users", index(user), user_count()));
    }
  }

  // The numbers of a block, or the whole vector; `room` holds the vector if only a part is given.
  std::span<const float> numbers_of(const Features& features, std::vector<float>& room) const {
    if (features.values.size() == arm_length()) {
      return features.values;
    }
    room.assign(inputs_, 0.0F);
    std::ranges::copy(features.values, room.begin() + features.offset);
    return room;
  }

  // A learner has the coefficients of one user for one block.
  std::uint64_t key_of(UserId user, const Features& features) const {
    const std::uint64_t block = block_length_ > 0 ? features.offset / block_length_ : 0;
    return (block << 32) | index(user);
  }
  static UserId owner_of(std::uint64_t key) { return UserId{static_cast<std::uint32_t>(key)}; }

  std::size_t find_learner(std::uint64_t key) const {
    const auto found = learners_.find(key);
    return found == learners_.end() ? HybridRidge::kNoLearner : found->second;
  }

  void add(UserId user, const Features& features, double reward) {
    const std::uint64_t key = key_of(user, features);
    if (!learners_.contains(key)) {
      learners_.emplace(key, ridge_.add_learner());
      keys_.push_back(key);
    }
    std::vector<float> room;
    ridge_.learn(learners_.at(key), numbers_of(features, room), reward);
  }

  // The last learner gets the number of the removed one.
  void remove_learner(std::size_t learner) {
    ridge_.remove_learner(learner);
    learners_.erase(keys_[learner]);
    keys_[learner] = keys_.back();
    keys_.pop_back();
    if (learner < keys_.size()) {
      learners_[keys_[learner]] = learner;
    }
  }

  double alpha_;
  std::uint32_t inputs_;
  std::uint32_t block_length_;
  HybridRidge ridge_;
  ThreadPool& threads_;
  std::unordered_map<std::uint64_t, std::size_t> learners_;  // by key
  std::vector<std::uint64_t> keys_;                          // by learner
  std::uint64_t rewards_ = 0;
};

}  // namespace

// The triangles of the shared coefficients and of a user's own (hybrid_ridge.h).
PolicySize hybrid_linucb_size(bool products, const PolicySetup& setup) {
  const std::size_t length = setup.block_length > 0 ? setup.block_length : setup.inputs;
  const auto shared = static_cast<double>(HybridRidge::shared_count(length, products));
  const double own = 1.0 + static_cast<double>(length);
  PolicySize size;
  size.fixed_bytes = 1000.0 + 8.0 * shared * (shared + 3.0) / 2.0;
  size.user_bytes = 150.0 + 8.0 * own * (shared + 1.0 + (own + 1.0) / 2.0);
  size.numbers = shared * shared / 2.0;
  size.arm_operations = shared * shared / 2.0 + own * (shared + own / 2.0);
  return size;
}

std::unique_ptr<Policy> make_hybrid_linucb(const HybridLinUcbOptions& options,
                                           const PolicySetup& setup) {
  return std::make_unique<HybridLinUcb>(options, setup);
}

}  // namespace mcnb
