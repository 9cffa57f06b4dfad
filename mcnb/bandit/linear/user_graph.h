#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/bandit/linear/user_rows.h"
#include "mcnb/base/ids.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// A graph over all users that loses edges. Its connected components are the users who are taken to
// agree.
//
// Components are numbered. When one splits, its largest part keeps the number and the others get
// new ones. Users without samples (user_rows.h) are all alike, and lose their edges to a user all
// at once. A graph borrows the rows of the known users, which must outlive it; the owner of both
// tells the graph of every change.
class UserGraph {
 public:
  virtual ~UserGraph() = default;

  // The user has given its first sample and has the next row.
  virtual void meet(UserId user) = 0;
  // Adds users. Returns true if components have merged or have new numbers.
  virtual bool add_users(std::size_t count) = 0;

  virtual std::size_t component_count() const = 0;
  virtual std::uint32_t component(UserId user) const = 0;
  // The size of a user's component, and its members in ascending order.
  virtual std::size_t size(UserId user) const = 0;
  virtual std::vector<UserId> members(UserId user) const = 0;

  virtual bool linked(UserId a, UserId b) const = 0;
  // The neighbours of a known user: rows of known users, and whether users without samples are
  // among them.
  struct Links {
    std::vector<std::uint32_t> rows;
    bool unknown = false;
  };
  virtual void find_links(UserId user, Links& links) const = 0;

  // Cuts existing edges of a known user: those to some known users, and, if links.unknown, those to
  // all users without samples. Returns the numbers of the components that split off.
  virtual std::vector<std::uint32_t> cut(UserId user, const Links& links) = 0;

  virtual std::size_t memory_bytes() const = 0;
  virtual void save(StateWriter& writer) const = 0;
  // Expects the known users of the saved graph to be loaded already.
  virtual void load(StateReader& reader) = 0;
};

// A graph that links all users at the start. A user who comes later has the edges of the users
// without samples, and edges to them. If there are none, the newcomer is linked to everybody in the
// largest component. (Linked to all users, every newcomer would merge all components.) Users who
// cut no edge cost next to nothing, others a bit for each known user.
std::unique_ptr<UserGraph> complete_user_graph(const UserRows& known);

// A graph that links every pair of users with probability 3 ln n / n, where n is the number of
// users at the start. A user who comes later is linked to each earlier one with the probability for
// the number of users at that time. Costs a few bytes for each edge.
std::unique_ptr<UserGraph> random_user_graph(const UserRows& known, std::uint64_t seed);

}  // namespace mcnb
