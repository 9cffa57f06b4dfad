#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mcnb {

enum class SearchStep { kOn, kMet, kEnded };

// What a component has come apart into.
template <class Search>
struct ComponentParts {
  std::vector<Search> whole;  // parts that were searched to their end
  Search rest;                // reached a node of the one other part
};

// Finds the parts that a component has come apart into when some of a node's edges went: `first`
// has begun at that node, the targets are the nodes that the edges led to, start(target) begins
// there. Two searches take turns, one node each, until they meet or one of them ends: so a split
// costs as much as the smaller part, and where two nodes share a neighbour, two steps tell.
//
// A Search has: SearchStep step(const Search& other), which takes one node further;
// bool reached(node); absorb(const Search& other) for one that it has met.
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
