#include "mcnb/bandit/linear/pruned_graph.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "mcnb/bandit/linear/graph_search.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::size_t kBits = 64;
using Word = std::uint64_t;

std::size_t words_for(std::size_t nodes) { return (nodes + kBits - 1) / kBits; }
Word bit_of(std::uint32_t node) { return Word{1} << (node % kBits); }

// A mask of the bits of a word that belong to existing nodes.
Word nodes_in_word(std::size_t word, std::size_t nodes) {
  const std::size_t left = nodes - word * kBits;
  return left < kBits ? (Word{1} << left) - 1 : ~Word{0};
}

bool has(std::span<const Word> words, std::uint32_t node) {
  const std::size_t word = node / kBits;
  return word < words.size() && (words[word] & bit_of(node)) != 0;
}

// Calls visit(node) for every node of a set, in ascending order.
template <class Visit>
void for_every_node(std::span<const Word> words, Visit visit) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (Word left = words[i]; left != 0; left &= left - 1) {
      visit(static_cast<std::uint32_t>(i * kBits) +
            static_cast<std::uint32_t>(std::countr_zero(left)));
    }
  }
}

std::size_t count_of(std::span<const Word> words) {
  std::size_t count = 0;
  for (const Word word : words) {
    count += static_cast<std::size_t>(std::popcount(word));
  }
  return count;
}

// Requires a set that is not empty.
std::size_t lowest_of(std::span<const Word> words) {
  std::size_t word = 0;
  while (words[word] == 0) {
    ++word;
  }
  return word * kBits + static_cast<std::size_t>(std::countr_zero(words[word]));
}

}  // namespace

// A search through one component, whose members are given.
class PrunedGraph::Search {
 public:
  Search(const PrunedGraph& graph, std::span<const Word> members)
      : graph_(&graph), members_(members), reached_(members.size()), done_(members.size()) {}
  Search(const PrunedGraph& graph, std::span<const Word> members, std::uint32_t node)
      : Search(graph, members) {
    reached_[node / kBits] |= bit_of(node);
  }

  const std::vector<Word>& nodes() const { return reached_; }
  bool reached(std::uint32_t node) const { return has(reached_, node); }

  SearchStep step(const Search& other) {
    while (next_ < reached_.size() && (reached_[next_] & ~done_[next_]) == 0) {
      ++next_;
    }
    if (next_ == reached_.size()) {
      return SearchStep::kEnded;
    }
    const auto node = static_cast<std::uint32_t>(next_ * kBits) +
                      static_cast<std::uint32_t>(std::countr_zero(reached_[next_] & ~done_[next_]));
    done_[next_] |= bit_of(node);
    const bool own = graph_->has_cut(node);
    const std::vector<Word> by_others = own ? std::vector<Word>() : graph_->marks_by_others(node);
    const std::span<const Word> marks = own ? graph_->row_of(node) : by_others;
    Word common = 0;
    std::size_t first_new = reached_.size();
    for (std::size_t i = reached_.size(); i-- > 0;) {
      const Word links = i < marks.size() ? members_[i] & ~marks[i] : members_[i];
      const Word before = reached_[i];
      reached_[i] |= links;
      first_new = reached_[i] != before ? i : first_new;
      common |= reached_[i] & other.reached_[i];
    }
    next_ = std::min(next_, first_new);
    return common != 0 ? SearchStep::kMet : SearchStep::kOn;
  }

  void absorb(const Search& other) {
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      reached_[i] |= other.reached_[i];
      done_[i] |= other.done_[i];
    }
    next_ = 0;
  }

 private:
  const PrunedGraph* graph_;
  std::span<const Word> members_;
  std::vector<Word> reached_;
  std::vector<Word> done_;  // reached nodes whose edges have been followed
  std::size_t next_ = 0;    // words before this one have no reached node that is not done
};

bool PrunedGraph::is_marked(std::uint32_t a, std::uint32_t b) const {
  if (has_cut(a)) {
    return has(row_of(a), b);
  }
  return has_cut(b) && has(row_of(b), a);
}

void PrunedGraph::set_bit(std::vector<Word>& row, std::uint32_t node) const {
  const std::size_t word = node / kBits;
  if (row.size() <= word) {
    // Growing by doubling, as vectors do, would double the memory of a large graph.
    row.reserve(std::min(words_for(node_count()), word + 1 + word / 4));
    row.resize(word + 1);
  }
  row[word] |= bit_of(node);
}

// The nodes that cut their edge to this one; empty if there are none.
std::vector<Word> PrunedGraph::marks_by_others(std::uint32_t node) const {
  std::vector<Word> marks;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (has(rows_[row], node)) {
      set_bit(marks, cutters_[row]);
    }
  }
  return marks;
}

std::vector<Word>& PrunedGraph::row_to_change(std::uint32_t node) {
  if (!has_cut(node)) {
    rows_.push_back(marks_by_others(node));
    cutters_.push_back(node);
    next_row_.set(node, static_cast<std::uint32_t>(rows_.size()));
  }
  return row_of(node);
}

void PrunedGraph::mark(std::uint32_t node, std::span<const std::uint32_t> others) {
  std::vector<Word>& row = row_to_change(node);
  for (const std::uint32_t other : others) {
    check(linked(node, other), "only existing edges are cut");
    set_bit(row, other);
    if (has_cut(other)) {
      set_bit(row_of(other), node);
    }
  }
}

std::vector<Word> PrunedGraph::members(std::uint32_t component) const {
  std::vector<Word> words(words_for(node_count()));
  if (component == 0) {  // all nodes that are in no other component
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = nodes_in_word(i, node_count());
    }
  }
  component_of_.for_every([&](std::size_t node, std::uint32_t number) {
    if (component == 0 || number == component) {
      words[node / kBits] ^= bit_of(static_cast<std::uint32_t>(node));
    }
  });
  return words;
}

void PrunedGraph::find_links(std::uint32_t node, std::vector<std::uint32_t>& links) const {
  links.clear();
  if (component(node) == kNowhere) {
    return;
  }
  const std::vector<Word> marks_of_others =
      has_cut(node) ? std::vector<Word>() : marks_by_others(node);
  const std::span<const Word> marks = has_cut(node) ? row_of(node) : marks_of_others;
  std::vector<Word> linked = members(component(node));
  linked[node / kBits] &= ~bit_of(node);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    linked[i] &= ~marks[i];
  }
  for_every_node(linked, [&](std::uint32_t other) { links.push_back(other); });
}

std::uint32_t PrunedGraph::add_node(std::uint32_t component) {
  if (sizes_.empty()) {
    sizes_.push_back(0);
  }
  check(component < sizes_.size(), "a node joins a component there is");
  const auto node = static_cast<std::uint32_t>(nodes_++);
  if (component != 0) {
    component_of_.set(node, component);
  }
  ++sizes_[component];
  return node;
}

std::uint32_t PrunedGraph::add_node_like(std::uint32_t node) {
  check(!has_cut(node), "what others are like has cut nothing");
  const std::uint32_t added = add_node(component(node));
  for (std::vector<Word>& row : rows_) {
    if (has(row, node)) {
      set_bit(row, added);
    }
  }
  return added;
}

std::uint32_t PrunedGraph::split_off(std::span<const Word> members) {
  const auto number = static_cast<std::uint32_t>(sizes_.size());
  sizes_.push_back(0);
  for_every_node(members, [&](std::uint32_t node) {
    --sizes_[component(node)];
    ++sizes_[number];
    component_of_.set(node, number);
  });
  return number;
}

std::vector<std::uint32_t> PrunedGraph::cut(std::uint32_t node,
                                            std::span<const std::uint32_t> others) {
  if (others.empty()) {
    return {};
  }
  mark(node, others);
  const std::vector<Word> all = members(component(node));
  ComponentParts<Search> parts =
      find_parts(Search(*this, all, node), others,
                 [&](std::uint32_t other) { return Search(*this, all, other); });
  if (parts.whole.empty()) {
    return {};
  }
  std::vector<std::vector<Word>> pieces;
  std::vector<Word> rest = all;
  for (const Search& part : parts.whole) {
    pieces.push_back(part.nodes());
    for (std::size_t i = 0; i < rest.size(); ++i) {
      rest[i] &= ~part.nodes()[i];
    }
  }
  pieces.push_back(std::move(rest));
  std::ranges::sort(pieces, {}, lowest_of);
  const auto largest = std::ranges::max_element(pieces, {}, count_of);
  std::vector<std::uint32_t> fresh;
  for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
    if (piece != largest) {
      fresh.push_back(split_off(*piece));
    }
  }
  for (const std::vector<Word>& piece : pieces) {
    const auto lowest = static_cast<std::uint32_t>(lowest_of(piece));
    if (sizes_[component(lowest)] == 1 && has_cut(lowest)) {
      row_of(lowest) = {};  // it has no edges left
    }
  }
  return fresh;
}

void PrunedGraph::take_away(std::uint32_t node) {
  check(component(node) != kNowhere && !has_cut(node), "a node that is taken away has cut nothing");
  --sizes_[component(node)];
  component_of_.set(node, kNowhere);
}

void PrunedGraph::put_back(std::uint32_t node, std::uint32_t component) {
  check(this->component(node) == kNowhere && component < sizes_.size(),
        "only a removed node is put back");
  for (std::vector<Word>& row : rows_) {
    if (has(row, node)) {
      row[node / kBits] &= ~bit_of(node);
    }
  }
  component_of_.set(node, component);
  ++sizes_[component];
}

// Calls visit(component, members) for every component, in the order of the numbers.
template <class Visit>
void PrunedGraph::for_every_component(Visit visit) const {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < node_count(); ++node) {
    if (this->component(node) != kNowhere) {
      nodes.push_back(node);
    }
  }
  const auto component = [&](std::uint32_t node) { return component_of_[node]; };
  std::ranges::stable_sort(nodes, {}, component);
  std::vector<Word> members(words_for(node_count()));
  for (auto begin = nodes.begin(); begin != nodes.end();) {
    const auto end = std::find_if(begin, nodes.end(), [&](std::uint32_t node) {
      return component_of_[node] != component_of_[*begin];
    });
    std::for_each(begin, end, [&](std::uint32_t node) { members[node / kBits] |= bit_of(node); });
    visit(component_of_[*begin], std::span<const Word>(members));
    std::for_each(begin, end, [&](std::uint32_t node) { members[node / kBits] = 0; });
    begin = end;
  }
}

std::size_t PrunedGraph::memory_bytes() const {
  std::size_t bytes = sizeof *this + component_of_.memory_bytes() + next_row_.memory_bytes() +
                      sizes_.capacity() * sizeof sizes_[0] +
                      cutters_.capacity() * sizeof cutters_[0] + rows_.capacity() * sizeof rows_[0];
  for (const std::vector<Word>& row : rows_) {
    bytes += row.capacity() * sizeof row[0];
  }
  return bytes;
}

void PrunedGraph::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(nodes_));
  writer.write(static_cast<std::uint64_t>(sizes_.size()));
  std::vector<std::uint32_t> elsewhere;  // pairs: a node outside component 0, and its component
  std::vector<std::uint32_t> components;
  component_of_.for_every([&](std::size_t node, std::uint32_t component) {
    elsewhere.push_back(static_cast<std::uint32_t>(node));
    components.push_back(component);
  });
  writer.write_all(elsewhere);
  writer.write_all(components);
  writer.write_all(cutters_);
  for (const std::vector<Word>& row : rows_) {
    writer.write_all(row);
  }
}

void PrunedGraph::load(StateReader& reader, std::size_t most_nodes) {
  *this = {};
  const auto nodes = reader.read<std::uint64_t>();
  const auto components = reader.read<std::uint64_t>();
  if (nodes > most_nodes || components > std::max<std::uint64_t>(nodes, 1)) {
    reader.fail("a graph has more nodes or components than it can have");
  }
  nodes_ = static_cast<std::size_t>(nodes);
  sizes_.assign(static_cast<std::size_t>(components), 0);
  load_components(reader);
  load_rows(reader);
  check_components(reader);
}

void PrunedGraph::load_components(StateReader& reader) {
  const auto elsewhere = reader.read_all<std::uint32_t>(node_count());
  const auto components = reader.read_all<std::uint32_t>(node_count());
  if (elsewhere.size() != components.size()) {
    reader.fail("a node of a graph is in no component");
  }
  for (std::size_t i = 0; i < elsewhere.size(); ++i) {
    if (elsewhere[i] >= node_count() || (i > 0 && elsewhere[i] <= elsewhere[i - 1]) ||
        components[i] == 0) {
      reader.fail("the nodes of a graph are not in their order");
    }
    component_of_.set(elsewhere[i], components[i]);
  }
  for (std::uint32_t node = 0; node < node_count(); ++node) {
    if (component(node) == kNowhere) {
      continue;
    }
    if (component(node) >= sizes_.size()) {
      reader.fail("a node of a graph is in no component");
    }
    ++sizes_[component(node)];
  }
}

void PrunedGraph::load_rows(StateReader& reader) {
  cutters_ = reader.read_all<std::uint32_t>(node_count());
  for (const std::uint32_t node : cutters_) {
    if (node >= node_count() || has_cut(node) || component(node) == kNowhere) {
      reader.fail("a node of a graph lost an edge that it never had");
    }
    rows_.push_back(reader.read_all<Word>(words_for(node_count())));
    next_row_.set(node, static_cast<std::uint32_t>(rows_.size()));
    const std::vector<Word>& row = rows_.back();
    const bool too_long = row.size() == words_for(node_count()) &&
                          (row.back() & ~nodes_in_word(row.size() - 1, node_count())) != 0;
    if (too_long || has(row, node)) {
      reader.fail("a node of a graph lost an edge that it never had");
    }
  }
  for (const std::uint32_t node : cutters_) {
    for_every_node(row_of(node), [&](std::uint32_t other) {
      if (has_cut(other) && component(other) == component(node) && !has(row_of(other), node)) {
        reader.fail("an edge of a graph was lost on one side only");
      }
    });
  }
}

// Checks that the nodes of every component are connected. The first may be empty if nodes have been
// removed.
void PrunedGraph::check_components(StateReader& reader) const {
  for (std::size_t component = 1; component < sizes_.size(); ++component) {
    if (sizes_[component] == 0) {
      reader.fail("a component of a graph is empty");
    }
  }
  for_every_component([&](std::uint32_t, std::span<const Word> all) {
    Search search(*this, all, static_cast<std::uint32_t>(lowest_of(all)));
    const Search nowhere(*this, all);
    while (!std::ranges::equal(search.nodes(), all)) {
      if (search.step(nowhere) == SearchStep::kEnded) {
        reader.fail("a component of a graph does not hang together");
      }
    }
  });
}

}  // namespace mcnb
