#include "mcnb/bandit/linear_clusters.h"

#include <algorithm>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {

LinearClusters::LinearClusters(const LinearUsers& users, std::unique_ptr<UserGraph> graph)
    : users_(users), graph_(std::move(graph)) {
  met_ = static_cast<std::uint32_t>(users_.known_count());
  merge_all();
}

LinearClusters::Group& LinearClusters::group_to_change(std::uint32_t component) {
  if (groups_.size() <= component) {
    groups_.resize(component + std::size_t{1});
  }
  return groups_[component];
}

const LinearState* LinearClusters::state(UserId user) const {
  const std::uint32_t component = graph_->component(user);
  if (component >= groups_.size() || groups_[component].known == 0) {
    return nullptr;
  }
  const Group& group = groups_[component];
  return group.state ? &*group.state : &users_.state(group.some_row);
}

std::vector<const LinearState*> LinearClusters::states_of(
    std::span<const std::uint32_t> rows) const {
  std::vector<const LinearState*> states;
  for (const std::uint32_t row : rows) {
    states.push_back(&users_.state(row));
  }
  return states;
}

void LinearClusters::merge(Group& group, std::span<const std::uint32_t> rows) const {
  group.known = static_cast<std::uint32_t>(rows.size());
  group.some_row = rows.empty() ? 0 : rows.front();
  group.state.reset();
  if (rows.size() > 1) {
    group.state.emplace(users_.lambda());
    group.state->merge(states_of(rows));
  }
}

// The rows of every component's known members.
std::vector<std::vector<std::uint32_t>> LinearClusters::known_members() const {
  std::vector<std::vector<std::uint32_t>> rows;
  for (std::uint32_t row = 0; row < met_; ++row) {
    const std::uint32_t component = graph_->component(users_.user(row));
    rows.resize(std::max(rows.size(), component + std::size_t{1}));
    rows[component].push_back(row);
  }
  return rows;
}

void LinearClusters::merge_all() {
  const std::vector<std::vector<std::uint32_t>> rows = known_members();
  groups_.clear();
  groups_.resize(rows.size());
  for (std::size_t component = 0; component < rows.size(); ++component) {
    merge(groups_[component], rows[component]);
  }
}

void LinearClusters::add(UserId user, std::uint32_t block, const Features& features,
                         double reward) {
  const std::uint32_t row = users_.row(user).value();
  const bool is_new = row == met_;
  if (is_new) {
    graph_->meet(user);
    ++met_;
  }
  Group& group = group_to_change(graph_->component(user));
  if (is_new) {
    const std::uint32_t other = std::exchange(group.some_row, row);
    if (++group.known == 2) {
      merge(group, std::vector<std::uint32_t>{other, row});
      return;
    }
  }
  if (group.known > 1) {
    group.state->add(block, features.values, reward);
  }
}

void LinearClusters::add_users(std::size_t count) {
  if (graph_->add_users(count)) {
    merge_all();
  }
}

void LinearClusters::cut(UserId user, const UserGraph::Links& links) {
  if (links.rows.empty() && !links.unknown) {
    return;
  }
  const std::uint32_t old = graph_->component(user);
  std::vector<std::uint32_t> parts = graph_->cut(user, links);
  if (parts.empty()) {
    return;
  }
  parts.insert(parts.begin(), old);  // new numbers are higher, and ascend
  std::vector<std::vector<std::uint32_t>> rows(parts.size());
  for (std::uint32_t row = 0; row < met_; ++row) {
    const std::uint32_t component = graph_->component(users_.user(row));
    const auto part = std::ranges::lower_bound(parts, component);
    if (part != parts.end() && *part == component) {
      rows[static_cast<std::size_t>(part - parts.begin())].push_back(row);
    }
  }
  const auto heir = static_cast<std::size_t>(
      std::ranges::max_element(rows, {}, &std::vector<std::uint32_t>::size) - rows.begin());
  group_to_change(parts.back());
  Group whole = std::exchange(groups_[old], {});
  std::vector<const LinearState*> leavers;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (part != heir) {
      merge(groups_[parts[part]], rows[part]);
      const std::vector<const LinearState*> states = states_of(rows[part]);
      leavers.insert(leavers.end(), states.begin(), states.end());
    }
  }
  Group& group = groups_[parts[heir]];
  if (rows[heir].size() > 1 && whole.state->can_remove(leavers)) {
    whole.state->remove(leavers);
    group = {static_cast<std::uint32_t>(rows[heir].size()), rows[heir].front(),
             std::move(whole.state)};
  } else {
    merge(group, rows[heir]);
  }
}

void LinearClusters::cut_distant(UserId user, double alpha_2) {
  const std::uint32_t row = users_.row(user).value();
  const auto distant = [&](double squared_distance, double other_width) {
    const double allowed = alpha_2 * (users_.width(row) + other_width);
    return squared_distance > allowed * allowed;
  };
  graph_->find_links(user, links_);
  std::erase_if(links_.rows, [&](std::uint32_t other) {
    return !distant(users_.squared_distance(row, other), users_.width(other));
  });
  links_.unknown = links_.unknown && distant(users_.state(row).squared_norm(), confidence_width(0));
  cut(user, links_);
}

std::size_t LinearClusters::memory_bytes() const {
  std::size_t bytes =
      sizeof *this + graph_->memory_bytes() + groups_.capacity() * sizeof groups_[0];
  for (const Group& group : groups_) {
    if (group.state) {
      bytes += group.state->memory_bytes() - sizeof *group.state;
    }
  }
  return bytes;
}

void LinearClusters::save(StateWriter& writer) const {
  graph_->save(writer);
  for (const Group& group : groups_) {
    if (group.state) {
      group.state->save(writer);
    }
  }
}

void LinearClusters::load(StateReader& reader) {
  graph_->load(reader);
  met_ = static_cast<std::uint32_t>(users_.known_count());
  const std::vector<std::vector<std::uint32_t>> rows = known_members();
  groups_.clear();
  groups_.resize(rows.size());
  for (std::size_t component = 0; component < rows.size(); ++component) {
    Group& group = groups_[component];
    group.known = static_cast<std::uint32_t>(rows[component].size());
    group.some_row = rows[component].empty() ? 0 : rows[component].front();
    if (group.known > 1) {
      group.state = users_.load_state(reader);
      if (!group.state->has_sample_counts_of(states_of(rows[component]))) {
        reader.fail("a group's state is not that of its members");
      }
    }
  }
}

}  // namespace mcnb
