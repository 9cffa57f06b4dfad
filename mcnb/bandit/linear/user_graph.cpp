#include "mcnb/bandit/linear/user_graph.h"

#include <algorithm>

#include "mcnb/bandit/linear/pruned_graph.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// Node 0 stands for all users without samples, node 1 + r for the known user in row r. Users
// without samples are linked to each other and share the edges of node 0, which is removed if there
// are no such users.
class CompleteUserGraph final : public UserGraph {
 public:
  explicit CompleteUserGraph(const UserRows& known) : known_(known) {
    graph_.add_node(0);
    for (std::uint32_t row = 0; row < known.count(); ++row) {
      graph_.add_node(0);
    }
    if (!any_unknown()) {
      graph_.take_away(kUnknown);
    }
  }

  void meet(UserId user) override {
    // The user keeps the edges that it had as one of the users without samples.
    const std::uint32_t node = graph_.add_node_like(kUnknown);
    check(known_.row(user) == node - 1, "users are met in the order of their rows");
    if (!any_unknown()) {
      graph_.take_away(kUnknown);
    }
  }

  bool add_users(std::size_t count) override {
    if (count > 0 && graph_.component(kUnknown) == PrunedGraph::kNowhere) {
      graph_.put_back(kUnknown, largest_component());
    }
    return false;
  }

  std::size_t component_count() const override {
    return known_.user_count() == 0 ? 0 : graph_.component_count();
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
    for (std::uint32_t row = 0; row < known_.count(); ++row) {
      if (graph_.component(node_of(row)) == number) {
        all.push_back(known_.user(row));
      }
    }
    std::ranges::sort(all);
    return all;
  }

  bool linked(UserId a, UserId b) const override {
    const std::uint32_t first = node(a);
    const std::uint32_t second = node(b);
    return first == kUnknown && second == kUnknown ? a != b : graph_.linked(first, second);
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
    }
    return graph_.cut(node(user), others);
  }

  std::size_t memory_bytes() const override {
    return sizeof *this - sizeof graph_ + graph_.memory_bytes();
  }

  void save(StateWriter& writer) const override { graph_.save(writer); }

  void load(StateReader& reader) override {
    graph_.load(reader, known_.count() + 1);
    bool fits = graph_.node_count() == known_.count() + 1 &&
                (graph_.component(kUnknown) != PrunedGraph::kNowhere) == any_unknown();
    for (std::uint32_t row = 0; fits && row < known_.count(); ++row) {
      fits = graph_.component(node_of(row)) != PrunedGraph::kNowhere;
    }
    if (!fits || graph_.has_cut(kUnknown)) {
      reader.fail("a user graph is not that of its users");
    }
  }

 private:
  static constexpr std::uint32_t kUnknown = 0;
  static std::uint32_t node_of(std::uint32_t row) { return row + 1; }
  std::uint32_t node(UserId user) const {
    const std::optional<std::uint32_t> row = known_.row(user);
    return row ? node_of(*row) : kUnknown;
  }
  bool any_unknown() const { return known_.count() < known_.user_count(); }

  // Among equals, the component of the user who has been known longest.
  std::uint32_t largest_component() const {
    std::size_t most = 0;
    for (std::uint32_t number = 0; number < graph_.component_count(); ++number) {
      most = std::max(most, graph_.size(number));
    }
    for (std::uint32_t row = 0; row < known_.count(); ++row) {
      if (const std::uint32_t number = graph_.component(node_of(row));
          graph_.size(number) == most) {
        return number;
      }
    }
    return 0;
  }

  const UserRows& known_;
  PrunedGraph graph_;
};

}  // namespace

std::unique_ptr<UserGraph> complete_user_graph(const UserRows& known) {
  return std::make_unique<CompleteUserGraph>(known);
}

}  // namespace mcnb
