#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "mcnb/bandit/linear/graph_search.h"
#include "mcnb/bandit/linear/user_graph.h"
#include "mcnb/base/check.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

using Node = std::uint32_t;  // a user

double link_chance(std::size_t users) {
  const auto count = static_cast<double>(users);
  return std::min(1.0, 3.0 * std::log(count) / count);
}

// Keeps a list of neighbours for every user.
class RandomUserGraph final : public UserGraph {
 public:
  RandomUserGraph(const UserRows& known, std::uint64_t seed)
      : known_(known), seed_(seed), first_users_(known.user_count()) {
    for (std::size_t user = 0; user < first_users_; ++user) {
      draw_links(link_chance(first_users_));
    }
    number_components();
  }

  void meet(UserId) override {}

  bool add_users(std::size_t count) override {
    bool came_together = false;
    for (std::size_t i = 0; i < count; ++i) {
      draw_links(link_chance(neighbours_.size() + 1));
      const std::vector<Node>& links = neighbours_.back();
      if (links.empty()) {
        component_of_.push_back(static_cast<std::uint32_t>(sizes_.size()));
        sizes_.push_back(1);
        continue;
      }
      const std::uint32_t number = component_of_[links.front()];
      component_of_.push_back(number);
      ++sizes_[number];
      came_together = came_together || std::ranges::any_of(links, [&](Node other) {
                        return component_of_[other] != number;
                      });
    }
    if (came_together) {
      number_components();
    }
    return came_together;
  }

  std::size_t component_count() const override { return sizes_.size(); }
  std::uint32_t component(UserId user) const override { return component_of_[index(user)]; }
  std::size_t size(UserId user) const override { return sizes_[component(user)]; }

  std::vector<UserId> members(UserId user) const override {
    std::vector<UserId> all;
    for (Node node = 0; node < component_of_.size(); ++node) {
      if (component_of_[node] == component(user)) {
        all.push_back(UserId{node});
      }
    }
    return all;
  }

  bool linked(UserId a, UserId b) const override {
    return std::ranges::binary_search(neighbours_[index(a)], static_cast<Node>(b));
  }

  void find_links(UserId user, Links& links) const override {
    links.rows.clear();
    links.unknown = false;
    for (const Node other : neighbours_[index(user)]) {
      if (const std::optional<std::uint32_t> row = known_.row(UserId{other})) {
        links.rows.push_back(*row);
      } else {
        links.unknown = true;
      }
    }
  }

  std::vector<std::uint32_t> cut(UserId user, const Links& links) override {
    std::vector<Node> others;
    for (const std::uint32_t row : links.rows) {
      others.push_back(static_cast<Node>(known_.user(row)));
    }
    for (const Node other : neighbours_[index(user)]) {
      if (links.unknown && !known_.row(UserId{other})) {
        others.push_back(other);
      }
    }
    const auto node = static_cast<Node>(user);
    for (const Node other : others) {
      remove_link(node, other);
      remove_link(other, node);
    }
    return split(node, others);
  }

  std::size_t memory_bytes() const override {
    std::size_t bytes = sizeof *this + neighbours_.capacity() * sizeof neighbours_[0] +
                        component_of_.capacity() * sizeof component_of_[0] +
                        sizes_.capacity() * sizeof sizes_[0] +
                        searched_by_.capacity() * sizeof searched_by_[0];
    for (const std::vector<Node>& links : neighbours_) {
      bytes += links.capacity() * sizeof links[0];
    }
    return bytes;
  }

  // Saves each pair of neighbours once, with the higher one, so that a loaded graph is symmetric.
  void save(StateWriter& writer) const override {
    writer.write_all(component_of_);
    writer.write(static_cast<std::uint64_t>(sizes_.size()));
    std::vector<Node> lower;
    for (Node node = 0; node < neighbours_.size(); ++node) {
      const std::vector<Node>& links = neighbours_[node];
      lower.assign(links.begin(), std::ranges::lower_bound(links, node));
      writer.write_all(lower);
    }
  }

  void load(StateReader& reader) override {
    component_of_ = reader.read_all<std::uint32_t>(known_.user_count());
    const auto components = reader.read<std::uint64_t>();
    if (component_of_.size() != known_.user_count() || components > component_of_.size()) {
      reader.fail("a user graph is not that of its users");
    }
    neighbours_.assign(component_of_.size(), {});
    for (Node node = 0; node < neighbours_.size(); ++node) {
      neighbours_[node] = reader.read_all<Node>(node);
      const std::vector<Node>& links = neighbours_[node];
      if (std::ranges::adjacent_find(links, std::greater_equal()) != links.end() ||
          (!links.empty() && links.back() >= node)) {
        reader.fail("the links of a user are not in their order");
      }
      for (const Node other : links) {
        neighbours_[other].push_back(node);
      }
    }
    sizes_.assign(static_cast<std::size_t>(components), 0);
    check_components(reader);
  }

 private:
  // A search through one component. All searches share one list of who has visited which node.
  class Search {
   public:
    Search(RandomUserGraph& graph, std::uint32_t id) : graph_(&graph), id_(id) {}
    Search(RandomUserGraph& graph, std::uint32_t id, Node start) : Search(graph, id) {
      reach(start);
    }

    const std::vector<Node>& nodes() const { return nodes_; }
    bool reached(Node node) const { return graph_->searched_by_[node] == id_; }

    SearchStep step(const Search& other) {
      if (done_ == nodes_.size()) {
        return SearchStep::kEnded;
      }
      bool met = false;
      for (const Node node : graph_->neighbours_[nodes_[done_++]]) {
        if (other.reached(node)) {
          met = true;
        } else if (!reached(node)) {
          reach(node);
        }
      }
      return met ? SearchStep::kMet : SearchStep::kOn;
    }

    void absorb(const Search& other) {
      for (const Node node : other.nodes_) {
        graph_->searched_by_[node] = id_;
      }
      const auto middle = static_cast<std::ptrdiff_t>(other.done_);
      nodes_.insert(nodes_.begin() + static_cast<std::ptrdiff_t>(done_), other.nodes_.begin(),
                    other.nodes_.begin() + middle);
      nodes_.insert(nodes_.end(), other.nodes_.begin() + middle, other.nodes_.end());
      done_ += other.done_;
    }

    void forget() const {
      for (const Node node : nodes_) {
        graph_->searched_by_[node] = 0;
      }
    }

   private:
    void reach(Node node) {
      graph_->searched_by_[node] = id_;
      nodes_.push_back(node);
    }

    RandomUserGraph* graph_;
    std::uint32_t id_;
    std::vector<Node> nodes_;  // in the order in which they were reached
    std::size_t done_ = 0;     // the first so many have had their edges followed
  };

  // Adds a user with links to earlier ones, each with probability `chance`. The gaps between links
  // are geometric, so there is one draw per link, not per pair.
  void draw_links(double chance) {
    const auto node = static_cast<Node>(neighbours_.size());
    neighbours_.emplace_back();
    Rng rng(seed_, Stream::kUserGraph, node);
    double next = -1.0;
    while (chance > 0.0) {
      next += 1.0;
      if (chance < 1.0) {
        next += std::floor(std::log(1.0 - rng.uniform()) / std::log(1.0 - chance));
      }
      if (!(next < static_cast<double>(node))) {
        return;
      }
      const auto other = static_cast<Node>(next);
      neighbours_[node].push_back(other);
      neighbours_[other].push_back(node);  // it is the highest node: lists stay ascending
    }
  }

  void remove_link(Node from, Node to) {
    std::vector<Node>& links = neighbours_[from];
    const auto found = std::ranges::lower_bound(links, to);
    check(found != links.end() && *found == to, "only existing edges are cut");
    links.erase(found);
  }

  // Numbers all components in the order of their lowest users.
  void number_components() {
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    component_of_.assign(neighbours_.size(), kNone);
    sizes_.clear();
    std::vector<Node> queue;
    for (Node start = 0; start < neighbours_.size(); ++start) {
      if (component_of_[start] != kNone) {
        continue;
      }
      const auto number = static_cast<std::uint32_t>(sizes_.size());
      sizes_.push_back(1);
      component_of_[start] = number;
      queue.assign(1, start);
      while (!queue.empty()) {
        const Node node = queue.back();
        queue.pop_back();
        for (const Node other : neighbours_[node]) {
          if (component_of_[other] == kNone) {
            component_of_[other] = number;
            ++sizes_[number];
            queue.push_back(other);
          }
        }
      }
    }
  }

  std::vector<std::uint32_t> split(Node node, std::span<const Node> others) {
    searched_by_.resize(neighbours_.size(), 0);
    std::uint32_t searches = 1;
    ComponentParts<Search> parts =
        find_parts(Search(*this, searches, node), others,
                   [&](Node other) { return Search(*this, ++searches, other); });
    std::size_t largest = 0;
    std::size_t rest = sizes_[component_of_[node]];
    for (const Search& part : parts.whole) {
      largest = std::max(largest, part.nodes().size());
      rest -= part.nodes().size();
    }
    std::vector<std::vector<Node>> pieces;
    if (rest <= largest) {  // it may not be the largest part: search it completely
      const Search nowhere(*this, ++searches);
      while (parts.rest.step(nowhere) != SearchStep::kEnded) {
      }
      pieces.push_back(parts.rest.nodes());
    }
    parts.rest.forget();
    for (const Search& part : parts.whole) {
      part.forget();
      pieces.push_back(part.nodes());
    }
    std::ranges::sort(pieces, {}, [](const std::vector<Node>& piece) {
      return *std::ranges::min_element(piece);
    });
    if (rest <= largest) {
      pieces.erase(std::ranges::max_element(pieces, {}, &std::vector<Node>::size));
    }
    std::vector<std::uint32_t> fresh;
    for (const std::vector<Node>& piece : pieces) {
      fresh.push_back(static_cast<std::uint32_t>(sizes_.size()));
      sizes_[component_of_[piece.front()]] -= static_cast<std::uint32_t>(piece.size());
      sizes_.push_back(static_cast<std::uint32_t>(piece.size()));
      for (const Node member : piece) {
        component_of_[member] = fresh.back();
      }
    }
    return fresh;
  }

  // Checks that the loaded components are those of the links; fills sizes_.
  void check_components(StateReader& reader) {
    const std::vector<std::uint32_t> read = component_of_;
    const std::size_t components = sizes_.size();
    number_components();
    std::vector<std::uint32_t> number_read(sizes_.size(), ~std::uint32_t{0});
    std::vector<std::uint32_t> sizes(components, 0);
    bool same = sizes_.size() == components;
    for (Node node = 0; same && node < read.size(); ++node) {
      std::uint32_t& number = number_read[component_of_[node]];
      same = read[node] < components;
      if (same && number != read[node]) {
        same = number == ~std::uint32_t{0} && sizes[read[node]] == 0;
        number = read[node];
      }
      if (same) {
        ++sizes[read[node]];
      }
    }
    if (!same) {
      reader.fail("the components of a user graph are not what its links make");
    }
    component_of_ = read;
    sizes_ = std::move(sizes);
  }

  const UserRows& known_;
  std::uint64_t seed_;
  std::size_t first_users_;
  std::vector<std::vector<Node>> neighbours_;  // by user, ascending
  std::vector<std::uint32_t> component_of_;
  std::vector<std::uint32_t> sizes_;        // by component
  std::vector<std::uint32_t> searched_by_;  // by user; all zero between calls
};

}  // namespace

std::unique_ptr<UserGraph> random_user_graph(const UserRows& known, std::uint64_t seed) {
  return std::make_unique<RandomUserGraph>(known, seed);
}

}  // namespace mcnb
