#pragma once

#include <cstddef>

#include "mcnb/bandit/policy.h"
#include "mcnb/bandit/user_count.h"

namespace mcnb {

/// The base of policies that need no more than the number of their users. A new policy derives from
/// it and writes five functions: scores, learn, memory_bytes, save and load. Policies that keep a
/// table of their users, such as Club with its graph, derive from Policy: the table has the number.
class BasicPolicy : public Policy {
 public:
  explicit BasicPolicy(const PolicySetup& setup)
      : users_(setup.users), inputs_{.inputs = setup.inputs} {}

  std::size_t user_count() const final { return users_.count(); }
  void add_users(std::size_t count) final { users_.add(count); }

  /// The default learns nothing from the sample.
  void start(UserId user, const Sample& sample) override { check(user, sample); }

 protected:
  /// `scores`, `learn` and `start` call these first: they throw Error (kInput), see policy.h.
  void check(const Round& round) const { check_round(round, users_.count(), inputs_); }
  void check(RoundId round, const Arm& arm, float reward) const {
    check_feedback(round, arm, reward, users_.count(), inputs_);
  }
  void check(UserId user, const Sample& sample) const {
    check_start(user, sample, users_.count(), inputs_);
  }

  /// `save` and `load` call these first.
  void save_users(StateWriter& writer) const { users_.save(writer); }
  void load_users(StateReader& reader) { users_.load(reader); }

 private:
  UserCount users_;
  NetworkShape inputs_;  ///< only its number of inputs counts
};

}  // namespace mcnb
