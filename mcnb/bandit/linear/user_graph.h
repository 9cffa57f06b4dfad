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

// Which users are taken to agree: a graph over all users that loses edges, and its connected
// components.
//
// Components have numbers: when one comes apart, its largest part keeps the number, the others get
// new ones. Users who are not known (known_users.h) are all alike, and lose their edges to a user
// all at once. A graph borrows the list of known users, which must outlive it; the owner of both
// tells the graph of every change.
class UserGraph {
 public:
  virtual ~UserGraph() = default;

  // A user has become known: the next row.
  virtual void meet(UserId user) = 0;
  // So many users have come. True where components have come together, or have new numbers.
  virtual bool add_users(std::size_t count) = 0;

  virtual std::size_t component_count() const = 0;
  virtual std::uint32_t component(UserId user) const = 0;
  // How many are in the component of a user, and who, ascending.
  virtual std::size_t size(UserId user) const = 0;
  virtual std::vector<UserId> members(UserId user) const = 0;

  virtual bool linked(UserId a, UserId b) const = 0;
  // The rows of all known users, and whether there are any others, to whom a known user has edges.
  struct Links {
    std::vector<std::uint32_t> rows;
    bool unknown = false;
  };
  virtual void find_links(UserId user, Links& links) const = 0;

  // Deletes edges of a known user, which must be there: those to some known users, and those to
  // all who are not known. Returns the numbers of the components that split off.
  virtual std::vector<std::uint32_t> cut(UserId user, const Links& links) = 0;

  virtual std::size_t memory_bytes() const = 0;
  virtual void save(StateWriter& writer) const = 0;
  // Expects the known users of the saved graph to be loaded already.
  virtual void load(StateReader& reader) = 0;
};

// All users linked to each other. One who comes later is like those who are not known: it has their
// edges, and edges to them. Where all are known, it is linked to everybody in the largest
// component. (Linked to all users, as at the start, every newcomer would bring all components
// together.) Users who cut no edge cost next to nothing, others a bit for each known user.
std::unique_ptr<UserGraph> complete_user_graph(const UserRows& known);

// Every pair of users linked with chance 3 ln n / n, n the number of users when the graph is made;
// a user who comes later is linked to each earlier one with the chance for as many users as there
// are then. Costs a few bytes for each edge.
std::unique_ptr<UserGraph> random_user_graph(const UserRows& known, std::uint64_t seed);

}  // namespace mcnb
