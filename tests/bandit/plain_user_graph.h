#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb::cases {

// The user graph as a matrix over all users. Every query searches the whole matrix.
class PlainUserGraph {
 public:
  enum class Kind { kComplete, kRandom };

  PlainUserGraph(Kind kind, std::size_t users, std::uint64_t seed)
      : kind_(kind), seed_(seed), first_users_(users) {
    add_users(users);
  }

  std::size_t size() const { return edges_.size(); }
  bool linked(std::size_t a, std::size_t b) const { return edges_[a][b]; }
  void cut(std::size_t a, std::size_t b) { edges_[a][b] = edges_[b][a] = false; }

  // Adds users at the start; random graphs also add later users this way.
  void add_users(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      add_user(first_links(size()));
    }
  }

  // Adds users later. `known` lists the users with samples, in the order of their first sample.
  void add_newcomers(std::size_t count, const std::vector<std::size_t>& known) {
    if (kind_ == Kind::kRandom) {
      add_users(count);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      add_user(links_of_newcomer(known));
    }
  }

  std::size_t component_count() const {
    std::set<std::size_t> lowest;
    for (std::size_t user = 0; user < size(); ++user) {
      lowest.insert(*component(user).begin());
    }
    return lowest.size();
  }

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
  void add_user(const std::vector<std::size_t>& links) {
    const std::size_t user = size();
    for (std::vector<bool>& row : edges_) {
      row.push_back(false);
    }
    edges_.emplace_back(user + 1, false);
    for (const std::size_t other : links) {
      edges_[user][other] = edges_[other][user] = true;
    }
  }

  std::vector<std::size_t> links_of_newcomer(const std::vector<std::size_t>& known) const {
    std::vector<std::size_t> links;
    for (std::size_t model = 0; model < size(); ++model) {
      if (std::ranges::find(known, model) == known.end()) {  // `model` is not known
        links.push_back(model);
        for (std::size_t other = 0; other < size(); ++other) {
          if (edges_[model][other]) {
            links.push_back(other);
          }
        }
        return links;
      }
    }
    std::set<std::size_t> largest;
    for (const std::size_t user : known) {
      const std::set<std::size_t> members = component(user);
      if (members.size() > largest.size()) {
        largest = members;
      }
    }
    links.assign(largest.begin(), largest.end());
    return links;
  }

  std::vector<std::size_t> first_links(std::size_t user) const {
    std::vector<std::size_t> links;
    const auto n = static_cast<double>(std::max(first_users_, user + 1));
    const double chance = kind_ == Kind::kComplete ? 1.0 : std::min(1.0, 3.0 * std::log(n) / n);
    Rng rng(seed_, Stream::kUserGraph, user);
    std::size_t other = 0;
    while (chance > 0.0) {
      // Skips the users that fail the draw before the next success.
      if (chance < 1.0) {
        const double gap = std::log(1.0 - rng.uniform()) / std::log(1.0 - chance);
        other += static_cast<std::size_t>(std::min(gap, 1e9));
      }
      if (other >= user) {
        break;
      }
      links.push_back(other++);
    }
    return links;
  }

  Kind kind_;
  std::uint64_t seed_;
  std::size_t first_users_;
  std::vector<std::vector<bool>> edges_;
};

}  // namespace mcnb::cases
