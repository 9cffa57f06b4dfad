#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/paged_array.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// A complete graph that loses edges, and its connected components.
//
// Kept is what is gone, a bit for every edge that was cut, with the node that cut it; an edge
// between two nodes that both have cut some is kept with both. A node that cut nothing costs next
// to nothing. Components have numbers; when one comes apart, its largest part keeps the number (of
// equal ones that with the lowest node) and the others get new ones in the order of their lowest
// nodes, so that what belongs to a component can be kept in a list by number.
class CutGraph {
 public:
  // Nodes count from 0.
  std::size_t node_count() const { return nodes_; }
  std::size_t component_count() const { return sizes_.size(); }
  // kNowhere for a node that has been taken away.
  std::uint32_t component(std::uint32_t node) const { return component_of_[node]; }
  static constexpr std::uint32_t kNowhere = 0xffffffffU;
  // Nodes in a component.
  std::size_t size(std::uint32_t component) const { return sizes_[component]; }
  bool linked(std::uint32_t a, std::uint32_t b) const {
    return a != b && component(a) == component(b) && !is_marked(a, b);
  }
  // The nodes that a node has edges to, ascending.
  void find_links(std::uint32_t node, std::vector<std::uint32_t>& links) const;

  // Whether a node has ever cut an edge itself.
  bool has_cut(std::uint32_t node) const { return next_row_[node] != 0; }

  // A new node with edges to all nodes of a component and to no others; the first node of all makes
  // component 0.
  std::uint32_t add_node(std::uint32_t component);

  // Deletes edges of one node, which must be there. Returns the numbers of the components that
  // split off.
  std::vector<std::uint32_t> cut(std::uint32_t node, std::span<const std::uint32_t> others);

  // A new node with the edges of another one, and one to it.
  std::uint32_t add_node_like(std::uint32_t node);

  // Takes a node away that has cut nothing, and without which its component stays connected: from
  // now on it has no edges and is in no component, until it is put back with edges to all nodes of
  // one component.
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
  // The edges that were cut, in rows of bits as long as they have to be, for the nodes that cut
  // some. Between components there are no edges, marked or not.
  std::vector<std::uint32_t> cutters_;   // by row
  std::vector<std::vector<Word>> rows_;  // by row; given up where the node is alone
  PagedArray<std::uint32_t> next_row_;   // by node: 1 + its row
};

}  // namespace mcnb
