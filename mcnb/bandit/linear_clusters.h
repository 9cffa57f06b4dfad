#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/linear_users.h"
#include "mcnb/bandit/user_graph.h"

namespace mcnb {

// Users who share what they know: the components of a user graph, each with the linear state of
// its members together, lambda I + sum (M_k - lambda I).
//
// Borrows the users, whose states it sums up; the owner of both passes every sample on. A component
// with one known member has no state of its own: the member's is the same. When a component comes
// apart, the part with most known members gets the state less the others' samples, or one that is
// merged anew where too little would be left (LinearState::can_remove); the other parts are merged.
class LinearClusters {
 public:
  // All users who are known to `users` by now take part with what they have.
  LinearClusters(const LinearUsers& users, std::unique_ptr<UserGraph> graph);

  const UserGraph& graph() const { return *graph_; }

  // What the component of a user knows; nothing (nullptr) where no member is known.
  const LinearState* state(UserId user) const;

  // A sample has been added to the user's own state, on this block.
  void add(UserId user, std::uint32_t block, const Features& features, double reward);
  // So many users have been added to the users.
  void add_users(std::size_t count);
  // Deletes edges of a known user (UserGraph::cut), and splits what comes apart.
  void cut(UserId user, const UserGraph::Links& links);

  // The rule of CLUB: deletes every edge (u, j) of a known user with
  // ||w_u - w_j|| > alpha_2 (F(T_u) + F(T_j)).
  void cut_distant(UserId user, double alpha_2);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects the users to be loaded already.
  void load(StateReader& reader);

 private:
  struct Group {
    std::uint32_t known = 0;           // known members
    std::uint32_t some_row = 0;        // of one of them
    std::optional<LinearState> state;  // where there are at least two
  };

  Group& group_to_change(std::uint32_t component);
  std::vector<std::vector<std::uint32_t>> known_members() const;
  void merge_all();
  void merge(Group& group, std::span<const std::uint32_t> rows) const;
  std::vector<const LinearState*> states_of(std::span<const std::uint32_t> rows) const;

  const LinearUsers& users_;
  std::unique_ptr<UserGraph> graph_;
  std::uint32_t met_ = 0;      // rows that the graph has been told of
  std::vector<Group> groups_;  // by component
  UserGraph::Links links_;     // memory to be reused
};

}  // namespace mcnb
