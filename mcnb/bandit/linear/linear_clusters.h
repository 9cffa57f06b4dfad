#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mcnb/bandit/linear/linear_group.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/linear/user_graph.h"

namespace mcnb {

// The components of a user graph, each with the joint ridge state of its members (linear_group.h).
//
// Borrows the users, whose states it sums up; the owner of both passes every sample on. When a
// component splits, the part with most known members keeps the state, and the others leave it.
class LinearClusters {
 public:
  // Begins with all samples that `users` has.
  LinearClusters(const LinearUsers& users, std::unique_ptr<UserGraph> graph);

  const UserGraph& graph() const { return *graph_; }

  // The state of a user's component on a block; nullptr if no member has samples there.
  const RidgeState* find(UserId user, std::uint32_t block) const;

  // The owner has added this sample to the user's own state; `added` is what LinearUsers::add
  // returned.
  void add(const LinearUsers::Added& added, const Features& features, double reward);
  // The owner has added this many users.
  void add_users(std::size_t count);
  // Cuts edges of a known user (UserGraph::cut), and splits the states of components that split.
  void cut(UserId user, const UserGraph::Links& links);

  // Cuts the edges of a known user that the rule of CLUB forbids (club_rule.h).
  void cut_distant(UserId user, double alpha_2);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects the users to be loaded already.
  void load(StateReader& reader);

 private:
  LinearGroup& group_to_change(std::uint32_t component);
  std::vector<std::vector<std::uint32_t>> known_members() const;
  void merge_all();

  const LinearUsers& users_;
  std::unique_ptr<UserGraph> graph_;
  std::uint32_t met_ = 0;            // rows that the graph has been told of
  std::vector<LinearGroup> groups_;  // by component, up to the last with known members
  UserGraph::Links links_;           // memory to be reused
};

}  // namespace mcnb
