#include "mcnb/bandit/linear/pruned_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "mcnb/base/random.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::pruned_graph_test {
namespace {

using plain::expect_error;

// A graph as a matrix of edges. Every query searches the whole matrix.
class PlainGraph {
 public:
  std::size_t size() const { return edges_.size(); }
  bool linked(std::size_t a, std::size_t b) const { return edges_[a][b]; }

  void add_node(const std::set<std::size_t>& neighbours) {
    const std::size_t node = size();
    for (std::vector<bool>& row : edges_) {
      row.push_back(false);
    }
    edges_.emplace_back(node + 1, false);
    for (const std::size_t other : neighbours) {
      set(node, other, true);
    }
  }
  void set(std::size_t a, std::size_t b, bool linked) { edges_[a][b] = edges_[b][a] = linked; }

  std::set<std::size_t> component(std::size_t start) const {
    std::set<std::size_t> found = {start};
    std::vector<std::size_t> queue = {start};
    while (!queue.empty()) {
      const std::size_t node = queue.back();
      queue.pop_back();
      for (std::size_t other = 0; other < size(); ++other) {
        if (edges_[node][other] && found.insert(other).second) {
          queue.push_back(other);
        }
      }
    }
    return found;
  }

 private:
  std::vector<std::vector<bool>> edges_;
};

PrunedGraph complete(std::size_t nodes) {
  PrunedGraph graph;
  for (std::size_t i = 0; i < nodes; ++i) {
    graph.add_node(0);
  }
  return graph;
}

PlainGraph plain_complete(std::size_t nodes) {
  PlainGraph graph;
  for (std::size_t i = 0; i < nodes; ++i) {
    std::set<std::size_t> all;
    for (std::size_t other = 0; other < i; ++other) {
      all.insert(other);
    }
    graph.add_node(all);
  }
  return graph;
}

void expect_same(const PrunedGraph& graph, const PlainGraph& plain) {
  ASSERT_EQ(graph.node_count(), plain.size());
  std::map<std::uint32_t, std::set<std::size_t>> components;
  std::vector<std::uint32_t> links;
  for (std::uint32_t node = 0; node < graph.node_count(); ++node) {
    components[graph.component(node)].insert(node);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t other = 0; other < graph.node_count(); ++other) {
      ASSERT_EQ(graph.linked(node, other), plain.linked(node, other)) << node << ", " << other;
      if (plain.linked(node, other)) {
        expected.push_back(other);
      }
    }
    graph.find_links(node, links);
    ASSERT_EQ(links, expected);
  }
  ASSERT_EQ(components.size(), graph.component_count());
  for (const auto& [number, members] : components) {
    ASSERT_EQ(members, plain.component(*members.begin()));
    ASSERT_EQ(graph.size(number), members.size());
  }
}

std::string save(const PrunedGraph& graph) {
  std::ostringstream out;
  StateWriter writer(out, "graph", {.kind = "test"});
  graph.save(writer);
  writer.finish();
  return out.str();
}

PrunedGraph load(const std::string& bytes, std::size_t most = 1'000'000) {
  std::istringstream in(bytes);
  StateReader reader(in, "graph", {.kind = "test"});
  PrunedGraph graph;
  graph.load(reader, most);
  reader.finish();
  return graph;
}

TEST(PrunedGraph, SplitsAComponentWhenItsLastBridgeIsCut) {
  PrunedGraph graph = complete(6);  // 0 1 2 against 3 4 5
  for (const std::uint32_t left : {0U, 1U}) {
    EXPECT_TRUE(graph.cut(left, std::vector<std::uint32_t>{3, 4, 5}).empty());
  }
  EXPECT_TRUE(graph.cut(2, std::vector<std::uint32_t>{3, 5}).empty());
  EXPECT_EQ(graph.component_count(), 1U);
  const std::vector<std::uint32_t> fresh = graph.cut(4, std::vector<std::uint32_t>{2});
  EXPECT_EQ(fresh, std::vector<std::uint32_t>{1});  // of equal parts, that of node 0 stays
  EXPECT_EQ(graph.component(0), 0U);
  EXPECT_EQ(graph.component(5), 1U);
  EXPECT_EQ(graph.size(1), 3U);
}

TEST(PrunedGraph, TheLargestPartKeepsTheNumber) {
  PrunedGraph graph = complete(5);
  EXPECT_EQ(graph.cut(0, std::vector<std::uint32_t>{1, 2, 3, 4}), std::vector<std::uint32_t>{1});
  EXPECT_EQ(graph.component(0), 1U);
  EXPECT_EQ(graph.component(1), 0U);
}

// A node can be all that holds several others together.
TEST(PrunedGraph, OneNodeCanLeaveManyPartsBehind) {
  PrunedGraph graph = complete(7);
  for (std::uint32_t a = 1; a < 7; ++a) {
    for (std::uint32_t b = a + 1; b < 7; ++b) {
      if (a / 3 != b / 3) {  // 1 2, 3 4 5, 6
        EXPECT_TRUE(graph.cut(a, std::vector<std::uint32_t>{b}).empty());
      }
    }
  }
  EXPECT_EQ(graph.cut(0, std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}),
            (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(graph.component(4), 0U);  // the largest
  EXPECT_EQ(graph.component(0), 1U);
  EXPECT_EQ(graph.component(2), 2U);
  EXPECT_EQ(graph.component(6), 3U);
}

// Cuts edges of a random node: most of those to other groups, some of those within its group, so
// that components have several nodes. Returns the number of components that split off.
std::size_t cut_some(PrunedGraph& graph, PlainGraph& plain, std::size_t groups, Rng& rng) {
  const auto node = static_cast<std::uint32_t>(rng.below(graph.node_count()));
  std::vector<std::uint32_t> others;
  for (std::uint32_t other = 0; other < graph.node_count(); ++other) {
    const double chance = other % groups == node % groups ? 0.3 : 0.9;
    if (plain.linked(node, other) && rng.chance(chance)) {
      others.push_back(other);
      plain.set(node, other, false);
    }
  }
  const std::size_t before = graph.component_count();
  const std::size_t fresh = graph.cut(node, others).size();
  EXPECT_EQ(graph.component_count(), before + fresh);
  return fresh;
}

// Adds a node that is linked to a random component.
void add_to_component(PrunedGraph& graph, PlainGraph& plain, Rng& rng) {
  const auto component = static_cast<std::uint32_t>(rng.below(graph.component_count()));
  std::set<std::size_t> members;
  for (std::uint32_t other = 0; other < graph.node_count(); ++other) {
    if (graph.component(other) == component) {
      members.insert(other);
    }
  }
  graph.add_node(component);
  plain.add_node(members);
}

// Adds a node with the edges of `like`, and an edge to it.
void add_like(PrunedGraph& graph, PlainGraph& plain, std::uint32_t like) {
  std::set<std::size_t> neighbours = {like};
  for (std::uint32_t other = 0; other < graph.node_count(); ++other) {
    if (plain.linked(like, other)) {
      neighbours.insert(other);
    }
  }
  graph.add_node_like(like);
  plain.add_node(neighbours);
}

TEST(PrunedGraph, MatchesAPlainMatrixThroughRandomDeletions) {
  std::size_t splits = 0;
  std::size_t likenesses = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng(seed, Stream::kTest);
    const std::size_t nodes = 2 + rng.below(140);  // some more than two words
    PrunedGraph graph = complete(nodes);
    PlainGraph plain = plain_complete(nodes);
    const std::size_t groups = 1 + rng.below(6);
    for (int i = 0; i < 400; ++i) {
      splits += cut_some(graph, plain, groups, rng);
      if (rng.chance(0.02)) {
        add_to_component(graph, plain, rng);
      }
      const auto like = static_cast<std::uint32_t>(rng.below(graph.node_count()));
      if (rng.chance(0.05) && !graph.has_cut(like)) {
        add_like(graph, plain, like);
        ++likenesses;
      }
      if (i % 20 == 0) {
        expect_same(graph, plain);
        const std::string state = save(graph);
        graph = load(state);
        ASSERT_TRUE(save(graph) == state);
        expect_same(graph, plain);
        if (HasFatalFailure()) {
          FAIL() << "seed " << seed << ", step " << i;
        }
      }
    }
    expect_same(graph, plain);
  }
  EXPECT_GT(splits, 200U);
  EXPECT_GT(likenesses, 5U);
}

TEST(PrunedGraph, ANodeCanBeTakenAwayAndPutBack) {
  PrunedGraph graph = complete(5);
  PlainGraph plain = plain_complete(5);
  graph.cut(1, std::vector<std::uint32_t>{2, 3});
  plain.set(1, 2, false);
  plain.set(1, 3, false);
  expect_same(graph, plain);
  graph.take_away(2);
  EXPECT_EQ(graph.component(2), PrunedGraph::kNowhere);
  EXPECT_EQ(graph.component_count(), 1U);
  EXPECT_EQ(graph.size(0), 4U);
  std::vector<std::uint32_t> links;
  for (const std::uint32_t node : {0U, 1U, 3U, 4U}) {
    EXPECT_FALSE(graph.linked(2, node));
    graph.find_links(node, links);
    EXPECT_EQ(links.size(), node == 1 || node == 3 ? 2U : 3U);
  }
  graph.find_links(2, links);
  EXPECT_TRUE(links.empty());
  const std::string state = save(graph);
  graph = load(state);
  EXPECT_TRUE(save(graph) == state);
  graph.put_back(2, 0);
  plain.set(1, 2, true);
  expect_same(graph, plain);
}

TEST(PrunedGraph, OnlyNodesThatCutEdgesCostMemory) {
  PrunedGraph graph;
  constexpr std::uint32_t kNodes = 100'000;
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    graph.add_node(0);
  }
  EXPECT_LT(graph.memory_bytes(), 1000U);
  std::vector<std::uint32_t> most;
  for (std::uint32_t node = 100; node < kNodes; ++node) {
    most.push_back(node);
  }
  for (std::uint32_t node = 0; node < 10; ++node) {
    EXPECT_TRUE(graph.cut(node, most).empty());
  }
  EXPECT_LT(graph.memory_bytes(), 11 * (kNodes / 8 + 10'000));
  std::vector<std::uint32_t> links;
  graph.find_links(7, links);
  graph.cut(7, links);  // alone: what it has lost is forgotten
  EXPECT_LT(graph.memory_bytes(), 10 * (kNodes / 8 + 10'000));
  EXPECT_EQ(graph.component_count(), 2U);
}

TEST(PrunedGraph, StatesThatNoGraphWouldHaveSavedAreRefused) {
  struct Saved {
    std::uint64_t nodes = 3;
    std::uint64_t count = 2;
    std::vector<std::uint32_t> elsewhere = {2};
    std::vector<std::uint32_t> components = {1};
    std::vector<std::uint32_t> cutters = {2};
    std::vector<std::uint64_t> row = {3};  // node 2 is cut from 0 and 1
    std::vector<std::uint64_t> second_row = {};
    std::size_t most = 3;
  };
  const auto load_saved = [](const Saved& saved) {
    std::ostringstream out;
    StateWriter writer(out, "graph", {.kind = "test"});
    writer.write(saved.nodes);
    writer.write(saved.count);
    writer.write_all(saved.elsewhere);
    writer.write_all(saved.components);
    writer.write_all(saved.cutters);
    for (std::size_t i = 0; i < saved.cutters.size(); ++i) {
      writer.write_all(i == 0 ? saved.row : saved.second_row);
    }
    writer.finish();
    return load(out.str(), saved.most);
  };
  EXPECT_EQ(load_saved({}).component_count(), 2U);
  const auto refused = [&](const std::string& words, const Saved& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load_saved(saved); });
  };
  refused("more nodes or components", {.most = 2});
  refused("more nodes or components", {.count = 4});
  refused("a component of a graph is empty", {.count = 3});
  refused("in no component", {.components = {2}});
  refused("in no component", {.components = {}});
  refused("not in their order", {.components = {0}});
  refused("not in their order", {.elsewhere = {3}});
  refused("not in their order", {.elsewhere = {2, 2}, .components = {1, 1}});
  refused("does not hang together", {.count = 1, .elsewhere = {}, .components = {}});
  refused("never had", {.row = {7}});
  refused("never had", {.row = {8}});
  refused("never had", {.cutters = {2, 2}});
  refused("never had", {.cutters = {3}});
  refused("never had", {.components = {PrunedGraph::kNowhere}});
  refused("longer than it can be", {.row = {3, 0}});
  refused("on one side only",
          {.count = 1, .elsewhere = {}, .components = {}, .cutters = {0, 1}, .row = {2}});
  EXPECT_EQ(load_saved({.count = 1,
                        .elsewhere = {},
                        .components = {},
                        .cutters = {0, 1},
                        .row = {2},
                        .second_row = {1}})
                .component_count(),
            1U);
  EXPECT_EQ(load_saved({.row = {}}).component_count(), 2U);  // no edges between components
}

}  // namespace
}  // namespace mcnb::pruned_graph_test
