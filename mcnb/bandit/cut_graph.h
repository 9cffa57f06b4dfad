#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// A complete graph that loses edges, and its connected components.
//
// Kept is what is gone: a bit for every edge that was cut, in rows that are as long as they have
// to be, so that a node that never lost an edge costs four bytes. Components have numbers; when one
// comes apart, its largest part keeps the number (of equal ones that with the lowest node) and the
// others get new ones in the order of their lowest nodes, so that what belongs to a component can
// be kept in a list by number.
class CutGraph {
 public:
  // Nodes count from 0.
  std::size_t node_count() const { return component_of_.size(); }
  std::size_t component_count() const { return sizes_.size(); }
  std::uint32_t component(std::uint32_t node) const { return component_of_[node]; }
  // Nodes in a component.
  std::size_t size(std::uint32_t component) const { return sizes_[component]; }
  bool linked(std::uint32_t a, std::uint32_t b) const {
    return a != b && component_of_[a] == component_of_[b] && !is_marked(a, b);
  }
  // The nodes that a node has edges to, ascending.
  void find_links(std::uint32_t node, std::vector<std::uint32_t>& links) const;

  // A new node with edges to all nodes of a component and to no others; the first node of all makes
  // component 0.
  std::uint32_t add_node(std::uint32_t component);

  // Deletes edges of one node, which must be there. Returns the numbers of the components that
  // split off.
  std::vector<std::uint32_t> cut(std::uint32_t node, std::span<const std::uint32_t> others);

  // Deletes an edge whose ends stay connected by others: no search.
  void cut_redundant(std::uint32_t a, std::uint32_t b);

  // Takes a node away from its component, without which that stays connected: from now on it has no
  // edges and is a component of its own.
  void isolate(std::uint32_t node);

  // Gives a node edges to all others, whatever it lost before. All is one component then, with the
  // number 0.
  void link_to_all(std::uint32_t node);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader, std::size_t most_nodes);

 private:
  using Word = std::uint64_t;
  class Search;

  bool is_marked(std::uint32_t a, std::uint32_t b) const;
  void mark(std::uint32_t a, std::uint32_t b);
  Word& word_to_change(std::size_t node, std::size_t word);
  void mark_both_ways();
  std::span<const Word> marks_of(std::uint32_t node) const;
  std::vector<Word> members(std::uint32_t component) const;
  std::uint32_t split_off(std::span<const Word> members);
  template <class Visit>
  void for_every_component(Visit visit) const;
  void mark_between_components();
  void check_components(StateReader& reader) const;

  // The edges that were cut, by node, as far as any lost one. Between components there are no
  // edges, marked or not.
  std::vector<std::vector<Word>> marks_;
  std::vector<std::uint32_t> component_of_;
  std::vector<std::uint32_t> sizes_;  // by component
};

}  // namespace mcnb
