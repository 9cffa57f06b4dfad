#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/paged_array.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// A complete graph whose edges are cut one after the other, and its connected components.
//
// The graph stores the cut edges: one bit each, in the row of the node that cut it. If both nodes
// of an edge have cut edges, both rows have the bit. A node that cut nothing costs next to nothing.
// Components are numbered. When one splits, its largest part keeps the number (among equals the
// part with the lowest node), and the other parts get new numbers in the order of their lowest
// nodes. So the owner can keep what belongs to components in a list by number.
class PrunedGraph {
 public:
  // Nodes count from 0.
  std::size_t node_count() const { return nodes_; }
  std::size_t component_count() const { return sizes_.size(); }
  // kNowhere for a removed node.
  std::uint32_t component(std::uint32_t node) const { return component_of_[node]; }
  static constexpr std::uint32_t kNowhere = 0xffffffffU;
  // The number of nodes in a component.
  std::size_t size(std::uint32_t component) const { return sizes_[component]; }
  bool linked(std::uint32_t a, std::uint32_t b) const {
    return a != b && component(a) == component(b) && !is_marked(a, b);
  }
  // Fills `links` with the neighbours of a node, in ascending order.
  void find_links(std::uint32_t node, std::vector<std::uint32_t>& links) const;

  // Whether a node has ever cut an edge itself.
  bool has_cut(std::uint32_t node) const { return next_row_[node] != 0; }

  // Adds a node with edges to all nodes of one component. The first node makes component 0.
  std::uint32_t add_node(std::uint32_t component);

  // Cuts existing edges of one node. Returns the numbers of the components that split off.
  std::vector<std::uint32_t> cut(std::uint32_t node, std::span<const std::uint32_t> others);

  // Adds a node with the edges of another one, and an edge to that one.
  std::uint32_t add_node_like(std::uint32_t node);

  // Removes a node: it has no edges and no component until put_back gives it edges to all nodes of
  // one component. Requires that it has cut nothing and that its component stays connected.
  void take_away(std::uint32_t node);
  void put_back(std::uint32_t node, std::uint32_t component);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader, std::size_t most_nodes);

 private:
  using Word = std::uint64_t;
  class Search;

  std::vector<Word>& row_of(std::uint32_t node) { return rows_[next_row_[node] - 1]; }
  const std::vector<Word>& row_of(std::uint32_t node) const { return rows_[next_row_[node] - 1]; }
  bool is_marked(std::uint32_t a, std::uint32_t b) const;
  void set_bit(std::vector<Word>& row, std::uint32_t node) const;
  std::vector<Word> marks_by_others(std::uint32_t node) const;
  std::vector<Word>& row_to_change(std::uint32_t node);
  void mark(std::uint32_t node, std::span<const std::uint32_t> others);
  std::vector<Word> members(std::uint32_t component) const;
  std::uint32_t split_off(std::span<const Word> members);
  template <class Visit>
  void for_every_component(Visit visit) const;
  void load_components(StateReader& reader);
  void load_rows(StateReader& reader);
  void check_components(StateReader& reader) const;

  std::size_t nodes_ = 0;
  PagedArray<std::uint32_t> component_of_;
  std::vector<std::uint32_t> sizes_;  // by component
  // The cut edges: a row of bits for each node that cut some, only as long as needed. Edges between
  // components need no bits.
  std::vector<std::uint32_t> cutters_;   // by row
  std::vector<std::vector<Word>> rows_;  // by row; empty if the node is alone
  PagedArray<std::uint32_t> next_row_;   // by node: 1 + its row
};

}  // namespace mcnb
