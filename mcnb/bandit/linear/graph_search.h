#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mcnb {

enum class SearchStep { kOn, kMet, kEnded };

// The parts into which a component has split.
template <class Search>
struct ComponentParts {
  std::vector<Search> whole;  // parts that were searched completely
  Search rest;                // has reached a node of the remaining part
};

// Finds the parts into which a component splits after a node has lost edges. `first` is a search
// that began at that node; `targets` are the nodes at the other ends of the lost edges;
// start(target) begins a search there. Two searches take turns, one node each, until they meet or
// one of them ends. So a split costs as much as its smaller part, and two nodes with a common
// neighbour cost two steps.
//
// A Search has: SearchStep step(const Search& other), which visits one more node;
// bool reached(node); absorb(const Search& other) for a search that it has met.
template <class Search, class Start>
ComponentParts<Search> find_parts(Search first, std::span<const std::uint32_t> targets,
                                  Start start) {
  ComponentParts<Search> parts{{}, std::move(first)};
  const auto is_reached = [&](std::uint32_t node) {
    return parts.rest.reached(node) ||
           std::ranges::any_of(parts.whole, [&](const Search& part) { return part.reached(node); });
  };
  for (const std::uint32_t target : targets) {
    if (is_reached(target)) {
      continue;
    }
    Search other = start(target);
    for (bool turn = false;; turn = !turn) {
      const SearchStep step = turn ? other.step(parts.rest) : parts.rest.step(other);
      if (step == SearchStep::kMet) {
        parts.rest.absorb(other);
        break;
      }
      if (step == SearchStep::kEnded) {
        if (!turn) {
          std::swap(parts.rest, other);
        }
        parts.whole.push_back(std::move(other));
        break;
      }
    }
  }
  return parts;
}

}  // namespace mcnb
