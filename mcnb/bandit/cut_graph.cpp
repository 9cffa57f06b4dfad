#include "mcnb/bandit/cut_graph.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "mcnb/bandit/graph_search.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::size_t kBits = 64;
using Word = std::uint64_t;

std::size_t words_for(std::size_t nodes) { return (nodes + kBits - 1) / kBits; }
Word bit_of(std::uint32_t node) { return Word{1} << (node % kBits); }

// The bits of a word that stand for nodes there are.
Word nodes_in_word(std::size_t word, std::size_t nodes) {
  const std::size_t left = nodes - word * kBits;
  return left < kBits ? (Word{1} << left) - 1 : ~Word{0};
}

bool has(std::span<const Word> words, std::uint32_t node) {
  const std::size_t word = node / kBits;
  return word < words.size() && (words[word] & bit_of(node)) != 0;
}

// Calls visit(node) for every node of a set, ascending.
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

// Bit c of word r becomes bit r of word c: halves change places, then quarters, and so on.
void transpose(std::array<Word, kBits>& bits) {
  Word mask = 0x00000000ffffffffU;
  for (std::size_t half = kBits / 2; half != 0; half /= 2, mask ^= mask << half) {
    for (std::size_t i = 0; i < kBits; i = (i + half + 1) & ~half) {
      const Word change = ((bits[i] >> half) ^ bits[i + half]) & mask;
      bits[i] ^= change << half;
      bits[i + half] ^= change;
    }
  }
}

// Of a set that is not empty.
std::size_t lowest_of(std::span<const Word> words) {
  std::size_t word = 0;
  while (words[word] == 0) {
    ++word;
  }
  return word * kBits + static_cast<std::size_t>(std::countr_zero(words[word]));
}

}  // namespace

// A search through one component, its members given.
class CutGraph::Search {
 public:
  Search(const CutGraph& graph, std::span<const Word> members)
      : graph_(&graph), members_(members), reached_(members.size()), done_(members.size()) {}
  Search(const CutGraph& graph, std::span<const Word> members, std::uint32_t node)
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
    const std::span<const Word> marks = graph_->marks_of(node);
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
  const CutGraph* graph_;
  std::span<const Word> members_;
  std::vector<Word> reached_;
  std::vector<Word> done_;  // reached, and their edges followed
  std::size_t next_ = 0;    // no word before it has nodes that are reached and not done
};

std::span<const Word> CutGraph::marks_of(std::uint32_t node) const {
  return node < marks_.size() ? std::span<const Word>(marks_[node]) : std::span<const Word>();
}

bool CutGraph::is_marked(std::uint32_t a, std::uint32_t b) const { return has(marks_of(a), b); }

// Where the marks of a node with the 64 nodes of a word are.
Word& CutGraph::word_to_change(std::size_t node, std::size_t word) {
  if (marks_.size() <= node) {
    marks_.resize(node + 1);
  }
  std::vector<Word>& row = marks_[node];
  if (row.size() <= word) {
    // Doubling, as vectors do, would double the memory of a large graph.
    row.reserve(std::min(words_for(node_count()), word + 1 + word / 4));
    row.resize(word + 1);
  }
  return row[word];
}

void CutGraph::mark(std::uint32_t a, std::uint32_t b) {
  word_to_change(a, b / kBits) |= bit_of(b);
  word_to_change(b, a / kBits) |= bit_of(a);
}

std::vector<Word> CutGraph::members(std::uint32_t component) const {
  std::vector<Word> words(words_for(node_count()));
  for (std::size_t node = 0; node < node_count(); ++node) {
    words[node / kBits] |= Word{component_of_[node] == component} << (node % kBits);
  }
  return words;
}

void CutGraph::find_links(std::uint32_t node, std::vector<std::uint32_t>& links) const {
  const std::span<const Word> marks = marks_of(node);
  const std::uint32_t own = component_of_[node];
  links.clear();
  for (std::size_t i = 0; i < words_for(node_count()); ++i) {
    const Word all = nodes_in_word(i, node_count());
    const Word unmarked = i < marks.size() ? all & ~marks[i] : all;
    for_every_node(std::span(&unmarked, 1), [&](std::uint32_t bit) {
      const std::uint32_t other = static_cast<std::uint32_t>(i * kBits) + bit;
      if (component_of_[other] == own && other != node) {
        links.push_back(other);
      }
    });
  }
}

std::uint32_t CutGraph::add_node(std::uint32_t component) {
  if (sizes_.empty()) {
    sizes_.push_back(0);
  }
  check(component < sizes_.size(), "a node joins a component there is");
  component_of_.push_back(component);
  ++sizes_[component];
  return static_cast<std::uint32_t>(node_count() - 1);
}

std::uint32_t CutGraph::split_off(std::span<const Word> members) {
  const auto number = static_cast<std::uint32_t>(sizes_.size());
  sizes_.push_back(0);
  for_every_node(members, [&](std::uint32_t node) {
    --sizes_[component_of_[node]];
    ++sizes_[number];
    component_of_[node] = number;
  });
  return number;
}

std::vector<std::uint32_t> CutGraph::cut(std::uint32_t node,
                                         std::span<const std::uint32_t> others) {
  for (const std::uint32_t other : others) {
    check(linked(node, other), "only edges that are there are cut");
    mark(node, other);
  }
  const std::vector<Word> all = members(component_of_[node]);
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
  return fresh;
}

void CutGraph::cut_redundant(std::uint32_t a, std::uint32_t b) { mark(a, b); }

void CutGraph::isolate(std::uint32_t node) {
  if (sizes_[component_of_[node]] > 1) {
    std::vector<Word> only(words_for(node_count()));
    only[node / kBits] |= bit_of(node);
    split_off(only);
  }
}

// Calls visit(component, its members) for every component, in the order of the numbers.
template <class Visit>
void CutGraph::for_every_component(Visit visit) const {
  std::vector<std::uint32_t> nodes(node_count());
  std::iota(nodes.begin(), nodes.end(), std::uint32_t{0});
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

// Before components come together again: what was cut stays cut.
void CutGraph::mark_between_components() {
  marks_.resize(node_count());
  for_every_component([&](std::uint32_t, std::span<const Word> members) {
    for_every_node(members, [&](std::uint32_t node) {
      std::vector<Word>& row = marks_[node];
      row.resize(members.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] |= nodes_in_word(i, node_count()) & ~members[i];
      }
    });
  });
}

void CutGraph::link_to_all(std::uint32_t node) {
  if (sizes_.size() > 1) {
    mark_between_components();
  }
  for_every_node(marks_of(node),
                 [&](std::uint32_t other) { marks_[other][node / kBits] &= ~bit_of(node); });
  if (node < marks_.size()) {
    marks_[node].clear();
  }
  std::ranges::fill(component_of_, 0);
  sizes_.assign(1, static_cast<std::uint32_t>(node_count()));
}

std::size_t CutGraph::memory_bytes() const {
  std::size_t bytes = sizeof *this + marks_.capacity() * sizeof marks_[0] +
                      component_of_.capacity() * sizeof component_of_[0] +
                      sizes_.capacity() * sizeof sizes_[0];
  for (const std::vector<Word>& row : marks_) {
    bytes += row.capacity() * sizeof row[0];
  }
  return bytes;
}

// Of every pair only the half below the diagonal: what is read back is then symmetric.
void CutGraph::save(StateWriter& writer) const {
  writer.write_all(component_of_);
  writer.write(static_cast<std::uint64_t>(sizes_.size()));
  for (std::uint32_t node = 0; node < node_count(); ++node) {
    std::vector<Word> below(marks_of(node).begin(), marks_of(node).end());
    below.resize(std::min(below.size(), words_for(node)));
    if (node % kBits != 0 && below.size() == words_for(node)) {
      below.back() &= bit_of(node) - 1;
    }
    while (!below.empty() && below.back() == 0) {
      below.pop_back();
    }
    writer.write_all(below);
  }
}

void CutGraph::load(StateReader& reader, std::size_t most_nodes) {
  *this = {};
  component_of_ = reader.read_all<std::uint32_t>(most_nodes);
  const auto components = reader.read<std::uint64_t>();
  if (components > node_count()) {
    reader.fail("a graph has more components than nodes");
  }
  for (std::uint32_t node = 0; node < node_count(); ++node) {
    const std::vector<Word> below = reader.read_all<Word>(words_for(node));
    if (below.size() == words_for(node) && node % kBits != 0 &&
        (below.back() & ~(bit_of(node) - 1)) != 0) {
      reader.fail("a node of a graph lost an edge that it never had");
    }
    for (std::size_t word = 0; word < below.size(); ++word) {
      if (below[word] != 0) {
        word_to_change(node, word) = below[word];
      }
    }
  }
  mark_both_ways();
  sizes_.assign(static_cast<std::size_t>(components), 0);
  check_components(reader);
  for (const std::uint32_t component : component_of_) {
    ++sizes_[component];
  }
}

// Adds to what stands below the diagonal what stands above it, 64 x 64 bits at a time: the marks
// may be hundreds of millions.
void CutGraph::mark_both_ways() {
  const std::size_t words = words_for(node_count());
  for (std::size_t row = 0; row < words; ++row) {
    for (std::size_t column = 0; column <= row; ++column) {
      std::array<Word, kBits> bits{};
      for (std::size_t i = 0; i < kBits; ++i) {
        const std::size_t node = row * kBits + i;
        if (node < marks_.size() && column < marks_[node].size()) {
          bits[i] = marks_[node][column];
        }
      }
      transpose(bits);
      for (std::size_t i = 0; i < kBits; ++i) {
        if (bits[i] != 0) {
          word_to_change(column * kBits + i, row) |= bits[i];
        }
      }
    }
  }
}

// That every component is one: its nodes hang together.
void CutGraph::check_components(StateReader& reader) const {
  for (const std::uint32_t component : component_of_) {
    if (component >= sizes_.size()) {
      reader.fail("a node of a graph is in no component");
    }
  }
  std::uint32_t next = 0;
  for_every_component([&](std::uint32_t component, std::span<const Word> all) {
    Search search(*this, all, static_cast<std::uint32_t>(lowest_of(all)));
    const Search nowhere(*this, all);
    while (!std::ranges::equal(search.nodes(), all)) {
      if (search.step(nowhere) == SearchStep::kEnded) {
        reader.fail("a component of a graph does not hang together");
      }
    }
    if (component != next++) {
      reader.fail("a component of a graph is empty");
    }
  });
  if (next != sizes_.size()) {
    reader.fail("a component of a graph is empty");
  }
}

}  // namespace mcnb
