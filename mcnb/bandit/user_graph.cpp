#include "mcnb/bandit/user_graph.h"

#include <algorithm>

#include "mcnb/bandit/cut_graph.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// Node 0 stands for all unknown users together, node 1 + r for the known user of row r.
//
// All unknown users are linked to each other. A known user is linked to those of them with ids from
// a bound on: when it loses its edges to unknown users the bound goes up to the number of users
// there are, so that it keeps those to users who come later. It has an edge to node 0 where there
// is an unknown user from its bound on.
class CompleteUserGraph final : public UserGraph {
 public:
  explicit CompleteUserGraph(const KnownUsers& known) : known_(known) {
    graph_.add_node(0);
    for (std::uint32_t row = 0; row < known.count(); ++row) {
      bounds_.push_back(0);
      graph_.add_node(0);
    }
    isolate_if_empty();
  }

  void meet(UserId user) override {
    const auto row = static_cast<std::uint32_t>(bounds_.size());
    check(known_.row(user) == row, "users are met in the order of their rows");
    // It was one of the unknown, and keeps all edges that it had as such.
    const std::uint32_t node = graph_.add_node(graph_.component(kUnknown));
    bounds_.push_back(0);
    isolate_if_empty();
    const std::optional<UserId> highest = known_.highest_unknown();
    for (std::uint32_t other = 0; bounded_ && other < row; ++other) {
      if (bounds_[other] > index(user) && graph_.linked(node, node_of(other))) {
        graph_.cut_redundant(node, node_of(other));
      }
      if (highest && bounds_[other] > index(*highest) && graph_.linked(kUnknown, node_of(other))) {
        graph_.cut_redundant(kUnknown, node_of(other));  // the last one it was linked to is `user`
      }
    }
  }

  bool add_users(std::size_t count) override {
    if (count == 0) {
      return false;
    }
    // Where node 0 stood for nobody it was a component of its own, which belongs to no user.
    const bool one = component_count() <= 1 && (bounds_.empty() || graph_.component(1) == 0);
    graph_.link_to_all(kUnknown);
    empty_ = false;
    return !one;
  }

  std::size_t component_count() const override {
    return graph_.component_count() - (empty_ ? 1 : 0);
  }
  std::uint32_t component(UserId user) const override { return graph_.component(node(user)); }

  std::size_t size(UserId user) const override {
    const std::uint32_t number = component(user);
    const std::size_t nodes = graph_.size(number);
    const std::size_t unknown = known_.user_count() - known_.count();
    return number == graph_.component(kUnknown) ? nodes - 1 + unknown : nodes;
  }

  std::vector<UserId> members(UserId user) const override {
    const std::uint32_t number = component(user);
    std::vector<UserId> all;
    if (number == graph_.component(kUnknown)) {
      for (std::size_t i = 0; i < known_.user_count(); ++i) {
        const UserId other{static_cast<std::uint32_t>(i)};
        if (component(other) == number) {
          all.push_back(other);
        }
      }
      return all;
    }
    for (std::uint32_t row = 0; row < bounds_.size(); ++row) {
      if (graph_.component(node_of(row)) == number) {
        all.push_back(known_.user(row));
      }
    }
    std::ranges::sort(all);
    return all;
  }

  bool linked(UserId a, UserId b) const override {
    const std::optional<std::uint32_t> first = known_.row(a);
    const std::optional<std::uint32_t> second = known_.row(b);
    if (first && second) {
      return graph_.linked(node_of(*first), node_of(*second));
    }
    if (!first && !second) {
      return a != b;
    }
    return first ? index(b) >= bounds_[*first] : index(a) >= bounds_[*second];
  }

  void find_links(UserId user, Links& links) const override {
    graph_.find_links(node(user), links.rows);
    links.unknown = !links.rows.empty() && links.rows.front() == kUnknown;
    if (links.unknown) {
      links.rows.erase(links.rows.begin());
    }
    for (std::uint32_t& row : links.rows) {
      --row;
    }
  }

  std::vector<std::uint32_t> cut(UserId user, const Links& links) override {
    std::vector<std::uint32_t> others;
    for (const std::uint32_t row : links.rows) {
      others.push_back(node_of(row));
    }
    if (links.unknown) {
      others.push_back(kUnknown);
      bounds_[node(user) - 1] = known_.user_count();
      bounded_ = true;
    }
    return graph_.cut(node(user), others);
  }

  std::size_t memory_bytes() const override {
    return sizeof *this - sizeof graph_ + graph_.memory_bytes() +
           bounds_.capacity() * sizeof bounds_[0];
  }

  void save(StateWriter& writer) const override {
    graph_.save(writer);
    writer.write_all(bounds_);
  }

  void load(StateReader& reader) override {
    graph_.load(reader, known_.count() + 1);
    bounds_ = reader.read_all<std::uint64_t>(known_.count());
    if (graph_.node_count() != known_.count() + 1 || bounds_.size() != known_.count()) {
      reader.fail("a user graph is not that of its users");
    }
    const std::optional<UserId> highest = known_.highest_unknown();
    empty_ = !highest;
    bounded_ = false;
    for (std::uint32_t row = 0; row < bounds_.size(); ++row) {
      const bool linked_to_some = highest && index(*highest) >= bounds_[row];
      if (bounds_[row] > known_.user_count() ||
          graph_.linked(kUnknown, node_of(row)) != linked_to_some) {
        reader.fail("a user graph is not that of its users");
      }
      bounded_ = bounded_ || bounds_[row] > 0;
    }
  }

 private:
  static constexpr std::uint32_t kUnknown = 0;
  static std::uint32_t node_of(std::uint32_t row) { return row + 1; }
  std::uint32_t node(UserId user) const {
    const std::optional<std::uint32_t> row = known_.row(user);
    return row ? node_of(*row) : kUnknown;
  }
  void isolate_if_empty() {
    empty_ = !known_.highest_unknown();
    if (empty_) {
      graph_.isolate(kUnknown);
    }
  }

  const KnownUsers& known_;
  CutGraph graph_;
  std::vector<std::uint64_t> bounds_;  // by row
  bool empty_ = false;                 // node 0 stands for nobody
  bool bounded_ = false;               // some bound is above 0
};

}  // namespace

std::unique_ptr<UserGraph> complete_user_graph(const KnownUsers& known) {
  return std::make_unique<CompleteUserGraph>(known);
}

}  // namespace mcnb
