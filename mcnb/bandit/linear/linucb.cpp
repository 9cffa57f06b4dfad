#include <fmt/core.h>

#include <memory>
#include <vector>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/linear/feature_blocks.h"
#include "mcnb/bandit/linear/hybrid_linucb.h"
#include "mcnb/bandit/linear/linear_size.h"
#include "mcnb/bandit/linear/linear_state.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/paged_array.h"

namespace mcnb {
namespace {

enum class LinUcbUsers { kOne, kEach, kHybrid };

struct LinUcbOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  LinUcbUsers users = LinUcbUsers::kOne;
  bool products = false;

  void check() const {
    if (products && users != LinUcbUsers::kHybrid) {
      throw Error(ErrorKind::kUsage,
                  "option products: must be no unless users=hybrid (got \"yes\")");
    }
  }
};

OptionTable<LinUcbOptions> option_table() {
  OptionTable<LinUcbOptions> table;
  table.number("lambda", &LinUcbOptions::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &LinUcbOptions::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .choice("users", &LinUcbOptions::users,
              {{"one", LinUcbUsers::kOne},
               {"each", LinUcbUsers::kEach},
               {"hybrid", LinUcbUsers::kHybrid}},
              "one state for all users, one for each, or coefficients that all share plus some of "
              "each user's own")
      .yes_no("products", &LinUcbOptions::products,
              "whether the shared coefficients of users=hybrid also see all products of two "
              "features");
  return table;
}

// LinUCB: ridge regression with upper confidence bounds, for all users together or for each.
//
// Every state begins with M = lambda I and b = 0. After a reward r for an arm with features x, the
// state of the arm's user takes M += x x^T and b += r x. With w = M^-1 b, an arm's score is
//   x.w + alpha sqrt(x^T M^-1 x * log(1 + t)),
// where t counts rewards (exploration_scale). A state is made with its first sample. It has a part
// for each feature block, because blocks make M block diagonal (linear_state.h).
class LinUcb final : public BasicPolicy {
 public:
  LinUcb(const LinUcbOptions& options, const PolicySetup& setup)
      : BasicPolicy(setup),
        options_(options),
        shape_{.inputs = setup.inputs},
        threads_(*setup.threads) {}

  void start(UserId user, const Sample& sample) override {
    check(user, sample);
    blocks_.check(sample.features, [&] { return fmt::format("start of user {}", index(user)); });
    add(user, sample.features, sample.reward);
  }

  ArmIndex choose(const Round& round) override {
    check(round);
    blocks_.check(round);
    return choose_arm(round, upper_bounds(), [this](const Arm& arm, std::uint32_t block) {
      return find_ridge(arm.user, block);
    });
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    check(round);
    blocks_.check(round);
    const std::size_t sharing = options_.users == LinUcbUsers::kOne ? user_count() : 1;
    return score_arms(
        round, upper_bounds(),
        [this](const Arm& arm, std::uint32_t block) { return find_ridge(arm.user, block); },
        [&](const Arm&) { return sharing; });
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    blocks_.check(arm.features, [&] {
      return fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
    });
    add(arm.user, arm.features, reward);
    ++rewards_;
  }

  std::size_t memory_bytes() const override {
    return sizeof *this + blocks_.memory_bytes() + next_slot_.memory_bytes() +
           owners_.capacity() * sizeof owners_[0] +
           (states_.capacity() - states_.size()) * sizeof states_[0] + state_bytes_;
  }

  void save(StateWriter& writer) const override {
    save_users(writer);
    writer.write_all(owners_);
    blocks_.save(writer);
    for (const LinearState& state : states_) {
      state.save(writer);
    }
    writer.write(rewards_);
  }

  void load(StateReader& reader) override {
    load_users(reader);
    const std::vector<UserId> owners = reader.read_all<UserId>(user_count());
    blocks_.load(reader, shape_);
    next_slot_ = {};
    owners_.clear();
    states_.clear();
    state_bytes_ = 0;
    const std::vector<std::uint32_t> lengths = blocks_.lengths();
    for (const UserId owner : owners) {
      if (index(owner) >= user_count() || owner != owner_of(owner) || find(owner) != nullptr) {
        reader.fail("a linear state belongs to a user that cannot have one");
      }
      LinearState& state = make_state(owner);
      state.load(reader, lengths);
      if (state.sample_count() == 0) {
        reader.fail("a linear state has no samples");
      }
      state_bytes_ += state.memory_bytes();
    }
    rewards_ = reader.read<std::uint64_t>();
  }

 private:
  UpperBounds upper_bounds() const {
    return {blocks_, options_.lambda, threads_, exploration_scale(options_.alpha, rewards_)};
  }

  // The user whose state a user's samples go to. A shared state is kept as that of user 0.
  UserId owner_of(UserId user) const {
    return options_.users == LinUcbUsers::kOne ? UserId{0} : user;
  }

  // nullptr for an owner without samples.
  const LinearState* find(UserId owner) const {
    const std::uint32_t next = next_slot_[index(owner)];
    return next == 0 ? nullptr : &states_[next - 1];
  }

  const RidgeState* find_ridge(UserId user, std::uint32_t block) const {
    const LinearState* const state = find(owner_of(user));
    return state == nullptr ? nullptr : state->find(block);
  }

  LinearState& make_state(UserId owner) {
    states_.emplace_back(options_.lambda);
    owners_.push_back(owner);
    next_slot_.set(index(owner), static_cast<std::uint32_t>(states_.size()));
    return states_.back();
  }

  void add(UserId user, const Features& features, double reward) {
    const UserId owner = owner_of(user);
    const std::uint32_t next = next_slot_[index(owner)];
    LinearState& state = next == 0 ? make_state(owner) : states_[next - 1];
    const std::size_t bytes_before = next == 0 ? 0 : state.memory_bytes();
    state.add(blocks_.find_or_add(features), features.values, reward);
    state_bytes_ += state.memory_bytes();
    state_bytes_ -= bytes_before;
  }

  LinUcbOptions options_;
  NetworkShape shape_;
  ThreadPool& threads_;
  FeatureBlocks blocks_;
  PagedArray<std::uint32_t> next_slot_;  // by owner: 1 + the slot, 0 without samples
  std::vector<UserId> owners_;           // by slot
  std::vector<LinearState> states_;      // by slot
  std::size_t state_bytes_ = 0;          // that all states hold, kept up to date
  std::uint64_t rewards_ = 0;
};

std::unique_ptr<Policy> make_linucb(const LinUcbOptions& options, const PolicySetup& setup) {
  if (options.users == LinUcbUsers::kHybrid) {
    return make_hybrid_linucb(
        {.lambda = options.lambda, .alpha = options.alpha, .products = options.products}, setup);
  }
  return std::make_unique<LinUcb>(options, setup);
}

PolicySize linucb_size(const LinUcbOptions& options, const PolicySetup& setup) {
  if (options.users == LinUcbUsers::kHybrid) {
    return hybrid_linucb_size(options.products, setup);
  }
  const bool each = options.users == LinUcbUsers::kEach;
  return linear_policy_size(
      setup, {.states = each ? 1.0 : 0.0, .shared_states = each ? 0.0 : 1.0, .compared = false});
}

}  // namespace

PolicyKind linucb_policy() {
  return policy_kind_by(
      {.name = "linucb",
       .help = "ridge regression with upper confidence bounds, for all users, for each, or with "
               "shared and own coefficients",
       .paper = "Li, Chu, Langford, Schapire: A Contextual-Bandit Approach to Personalized News "
                "Article Recommendation, WWW 2010",
       .values_before = {{"products", "no"}}},
      option_table(), make_linucb, linucb_size);
}

}  // namespace mcnb
