#include "mcnb/bandit/linear/linear_clusters.h"

#include <algorithm>
#include <utility>

#include "mcnb/bandit/linear/club_rule.h"

namespace mcnb {

LinearClusters::LinearClusters(const LinearUsers& users, std::unique_ptr<UserGraph> graph)
    : users_(users), graph_(std::move(graph)) {
  met_ = static_cast<std::uint32_t>(users_.known_count());
  merge_all();
}

LinearGroup& LinearClusters::group_to_change(std::uint32_t component) {
  if (groups_.size() <= component) {
    groups_.resize(component + std::size_t{1}, LinearGroup(users_));
  }
  return groups_[component];
}

const RidgeState* LinearClusters::find(UserId user, std::uint32_t block) const {
  const std::uint32_t component = graph_->component(user);
  return component < groups_.size() ? groups_[component].find(block) : nullptr;
}

// By component: the rows of its known members.
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
  groups_.clear();
  for (const std::vector<std::uint32_t>& rows : known_members()) {
    groups_.emplace_back(users_).join(rows);
  }
}

void LinearClusters::add(const LinearUsers::Added& added, const Features& features, double reward) {
  const UserId user = users_.user(added.row);
  if (added.row == met_) {
    graph_->meet(user);
    ++met_;
  }
  group_to_change(graph_->component(user)).add(added.row, added.block, features.values, reward);
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
  parts.insert(parts.begin(), old);  // the new numbers are higher, and ascending
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
  LinearGroup whole = std::exchange(groups_[old], LinearGroup(users_));
  std::vector<std::uint32_t> leavers;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (part != heir) {
      groups_[parts[part]].join(rows[part]);
      leavers.insert(leavers.end(), rows[part].begin(), rows[part].end());
    }
  }
  whole.leave(leavers, [&] { return rows[heir]; });
  groups_[parts[heir]] = std::move(whole);
}

void LinearClusters::cut_distant(UserId user, double alpha_2) {
  const std::uint32_t row = users_.row(user).value();
  graph_->find_links(user, links_);
  keep_distant(
      links_, alpha_2, {users_.state(row).squared_norm(), users_.width(row)},
      [&](std::uint32_t other) { return users_.squared_distance(row, other); },
      [&](std::uint32_t other) { return users_.width(other); });
  cut(user, links_);
}

std::size_t LinearClusters::memory_bytes() const {
  std::size_t bytes = sizeof *this + graph_->memory_bytes() +
                      (groups_.capacity() - groups_.size()) * sizeof(LinearGroup);
  for (const LinearGroup& group : groups_) {
    bytes += group.memory_bytes();
  }
  return bytes;
}

void LinearClusters::save(StateWriter& writer) const {
  graph_->save(writer);
  for (const LinearGroup& group : groups_) {
    group.save(writer);
  }
}

void LinearClusters::load(StateReader& reader) {
  graph_->load(reader);
  met_ = static_cast<std::uint32_t>(users_.known_count());
  groups_.clear();
  for (const std::vector<std::uint32_t>& rows : known_members()) {
    groups_.emplace_back(users_).load(reader, rows);
  }
}

}  // namespace mcnb
