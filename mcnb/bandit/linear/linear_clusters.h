#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mcnb/bandit/linear/group_state.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/linear/user_graph.h"

namespace mcnb {

// Users who share what they know: the components of a user graph, each with the linear state of
// its members together (group_state.h).
//
// Borrows the users, whose states it sums up; the owner of both passes every sample on. When a
// component comes apart, the part with most known members goes on with the state, which the others
// leave.
class LinearClusters {
 public:
  // All users who are known to `users` by now take part with what they have.
  LinearClusters(const LinearUsers& users, std::unique_ptr<UserGraph> graph);

  const UserGraph& graph() const { return *graph_; }

  // What the component of a user knows on a block; nothing (nullptr) where no member has samples.
  const RidgeState* find(UserId user, std::uint32_t block) const;

  // A sample has been added to the user's own state, there.
  void add(LinearUsers::Place place, const Features& features, double reward);
  // So many users have been added to the users.
  void add_users(std::size_t count);
  // Deletes edges of a known user (UserGraph::cut), and splits what comes apart.
  void cut(UserId user, const UserGraph::Links& links);

  // The rule of CLUB, for all edges of a known user (club_rule.h).
  void cut_distant(UserId user, double alpha_2);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects the users to be loaded already.
  void load(StateReader& reader);

 private:
  GroupState& group_to_change(std::uint32_t component);
  std::vector<std::vector<std::uint32_t>> known_members() const;
  void merge_all();

  const LinearUsers& users_;
  std::unique_ptr<UserGraph> graph_;
  std::uint32_t met_ = 0;           // rows that the graph has been told of
  std::vector<GroupState> groups_;  // by component, as far as any has known members
  UserGraph::Links links_;          // memory to be reused
};

}  // namespace mcnb
