#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "mcnb/bandit/linear/linear_group.h"
#include "mcnb/bandit/linear/linear_users.h"

namespace mcnb {

// The weights of a user or a group as they were at some time.
struct WeightsThen {
  std::uint64_t samples = 0;          // that they were learned from
  std::vector<std::uint32_t> blocks;  // ascending
  std::vector<double> values;         // of these blocks, one after the other

  static WeightsThen of(const LinearGroup& group);

  // ||w - w'||^2 to the present weights of a user or a group; a block that one of them lacks has
  // w = 0.
  double squared_distance(const LinearState& state, const FeatureBlocks& all) const;
  double squared_distance(const LinearGroup& group, const FeatureBlocks& all) const;
};

// The clusters of SCLUB (sclub.cpp): disjoint sets that cover all users, each with its ridge state
// and what the rules of splitting and merging compare. Clusters are numbered as they are born.
// Borrows the users; the owner of both passes every change on.
class SclubClusters {
 public:
  struct Cluster {
    explicit Cluster(const LinearUsers& users) : state(users) {}

    std::vector<UserId> members;
    std::map<std::uint64_t, std::uint32_t> with_rounds;  // rounds -> members that had so many
    std::uint64_t rounds = 0;                            // of all members
    std::uint32_t phase = 0;                             // the last phase that touched the cluster
    std::size_t checked = 0;                             // members checked in that phase
    WeightsThen old;                                     // at the start of that phase
    LinearGroup state;                                   // of all members

    bool all_checked() const { return checked == members.size(); }
  };

  explicit SclubClusters(const LinearUsers& users) : users_(users) {}

  std::uint64_t number_of(UserId user) const { return members_[index(user)].cluster; }
  Cluster& at(std::uint64_t number) { return clusters_.at(number); }
  const Cluster& at(std::uint64_t number) const { return clusters_.at(number); }
  const Cluster& of(UserId user) const { return at(number_of(user)); }
  const std::map<std::uint64_t, Cluster>& all() const { return clusters_; }  // by number

  std::uint64_t rounds_of(UserId user) const { return members_[index(user)].rounds; }

  // The users have grown: the new ones form one cluster, or one each.
  void add_together();
  void add_one_by_one();

  // Marks the start of a phase for a cluster that the phase touches for the first time. Until then
  // nothing of the cluster has changed since the phase began.
  static void enter_phase(Cluster& cluster, std::uint32_t phase);

  // The user has had one more round, in which it was checked. Requires that the cluster has entered
  // the phase.
  void count_round(UserId user);

  // Moves a user that has just been checked to a new cluster, and returns the number of that one.
  std::uint64_t split_off(UserId user);

  // Merges two clusters whose members are all checked: the larger takes in the other, of equal ones
  // the older. Returns the number that stays.
  std::uint64_t merge(std::uint64_t a, std::uint64_t b);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects the users to be loaded. `rewards` is the number of rounds so far, `phase` theirs.
  void load(StateReader& reader, std::uint64_t rewards, std::uint32_t phase);

 private:
  static constexpr std::uint64_t kNowhere = std::numeric_limits<std::uint64_t>::max();

  struct Member {
    std::uint64_t cluster = kNowhere;
    std::uint64_t rounds = 0;
    std::uint32_t position = 0;    // in the cluster's members
    std::uint32_t checked_in = 0;  // the last phase in which it was checked
  };

  Cluster& add_cluster(const std::vector<UserId>& members);
  void join(UserId user, std::uint64_t number, Cluster& cluster);
  void leave(UserId user, Cluster& cluster);
  std::vector<std::uint32_t> rows_of(const Cluster& cluster) const;
  void load_members(StateReader& reader, std::uint64_t rewards, std::uint32_t phase);
  void load_cluster(StateReader& reader, std::uint32_t phase);
  void load_old_weights(StateReader& reader, WeightsThen& old) const;

  const LinearUsers& users_;
  std::vector<Member> members_;                // by user
  std::map<std::uint64_t, Cluster> clusters_;  // by number
  std::uint64_t next_number_ = 0;
};

}  // namespace mcnb
