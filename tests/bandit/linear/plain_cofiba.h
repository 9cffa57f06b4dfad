#pragma once

#include <Eigen/Dense>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/numeric/kmeans.h"
#include "tests/bandit/plain_user_graph.h"
#include "tests/bandit/policy_cases.h"

namespace mcnb::cases {

// The options of the policy that the tests vary.
struct CofibaOptions {
  double lambda = 1.0;
  double alpha = 0.3;
  double alpha_2 = 1.0;
  std::size_t most_items = 1000;
  std::size_t item_groups = 20;

  OptionValues values() const {
    return {{"lambda", number_text(lambda)},
            {"alpha", number_text(alpha)},
            {"alpha_2", number_text(alpha_2)},
            {"items", "auto"},
            {"most_items", std::to_string(most_items)},
            {"item_groups", std::to_string(item_groups)}};
  }
};

// COFIBA as in the paper: full matrices, with all sums, inverses, components and neighbourhoods
// computed again each time. Every item knows its user graph.
class PlainCofiba {
 public:
  PlainCofiba(const World& world, const CofibaOptions& options, std::uint64_t seed)
      : shape_{.inputs = world.inputs()},
        options_(options),
        seed_(seed),
        users_(world.users, User(world.inputs(), options.lambda)) {
    graphs_.push_back(fresh_graph());
  }

  void add_users(std::size_t count) {
    users_.resize(users_.size() + count, User(shape_.inputs, options_.lambda));
    for (PlainUserGraph& graph : graphs_) {
      graph.add_newcomers(count, met_);
    }
  }

  std::set<std::size_t> cluster(const Arm& arm) const {
    return graphs_[graph_of(arm)].component(index(arm.user));
  }

  double score(const Arm& arm) const {
    User all(shape_.inputs, options_.lambda);
    for (const std::size_t member : cluster(arm)) {
      all.m += users_[member].m - User(shape_.inputs, options_.lambda).m;
      all.b += users_[member].b;
    }
    const Eigen::MatrixXd inverse = all.m.inverse();
    const Eigen::VectorXd x = whole(arm.features);
    return x.dot(inverse * all.b) +
           options_.alpha *
               std::sqrt(x.dot(inverse * x) * std::log(1.0 + static_cast<double>(time_)));
  }

  void add(UserId user, const Features& features, double reward) {
    add_sample(user, features, reward);
    gather(features);
  }

  void learn(const Arm& arm, double reward) {
    add_sample(arm.user, arm.features, reward);
    gather(arm.features);
    ++time_;
    const std::optional<std::size_t> item = meet(arm);
    const std::size_t u = index(arm.user);
    const Eigen::VectorXd x = whole(arm.features);
    const std::set<std::size_t> friends = neighbourhood(u, x);
    PlainUserGraph& graph = graphs_[item ? items_[*item].graph : 0];
    for (std::size_t j = 0; j < users_.size(); ++j) {
      if (graph.linked(u, j) && friends.count(j) == 0) {
        graph.cut(u, j);
      }
    }
    if (!item) {
      return;
    }
    for (std::size_t other = 0; other < items_.size(); ++other) {
      if (linked_[*item][other] && neighbourhood(u, items_[other].x) != friends) {
        linked_[*item][other] = linked_[other][*item] = false;
      }
    }
    // Every part of the old component gets its own graph, except the part with the item.
    const std::size_t old = items_[*item].graph;
    const std::set<std::size_t> own = component(*item);
    for (std::size_t other = 0; other < items_.size(); ++other) {
      if (items_[other].graph == old && own.count(other) == 0) {
        for (const std::size_t member : component(other)) {
          items_[member].graph = graphs_.size();
        }
        graphs_.push_back(fresh_graph());
      }
    }
  }

  std::size_t item_component_count() const {
    std::set<std::size_t> graphs;
    for (const Item& item : items_) {
      graphs.insert(item.graph);
    }
    return graphs.size();
  }
  std::size_t item_count() const { return items_.size(); }
  // The number of components of the user graph with the most components.
  std::size_t most_user_components() const {
    std::size_t most = 0;
    for (const PlainUserGraph& graph : graphs_) {
      most = std::max(most, graph.component_count());
    }
    return most;
  }

 private:
  struct User {
    User(std::uint32_t inputs, double lambda)
        : m(lambda * Eigen::MatrixXd::Identity(inputs, inputs)), b(Eigen::VectorXd::Zero(inputs)) {}

    Eigen::MatrixXd m;
    Eigen::VectorXd b;
  };
  struct Item {
    Eigen::VectorXd x;
    std::size_t graph;
  };
  enum class Identity { kIds, kBlocks, kGroups };

  PlainUserGraph fresh_graph() const {
    return {PlainUserGraph::Kind::kComplete, users_.size(), seed_};
  }

  Eigen::VectorXd whole(const Features& features) const {
    const std::vector<double> x = plain::dense(shape_, features);
    return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  }

  void add_sample(UserId user, const Features& features, double reward) {
    const Eigen::VectorXd x = whole(features);
    users_[index(user)].m += x * x.transpose();
    users_[index(user)].b += reward * x;
    if (std::ranges::find(met_, index(user)) == met_.end()) {
      met_.push_back(index(user));
    }
  }

  void gather(const Features& features) {
    if (features.values.size() == shape_.inputs &&
        sample_.size() < 5 * options_.item_groups * shape_.inputs) {
      sample_.insert(sample_.end(), features.values.begin(), features.values.end());
    }
  }

  double confidence(std::size_t user, const Eigen::VectorXd& x) const {
    return options_.alpha_2 * options_.alpha *
           std::sqrt(x.dot(users_[user].m.inverse() * x) *
                     std::log(1.0 + static_cast<double>(time_)));
  }
  double estimate(std::size_t user, const Eigen::VectorXd& x) const {
    return x.dot(users_[user].m.inverse() * users_[user].b);
  }
  std::set<std::size_t> neighbourhood(std::size_t u, const Eigen::VectorXd& x) const {
    std::set<std::size_t> all;
    for (std::size_t j = 0; j < users_.size(); ++j) {
      if (std::abs(estimate(u, x) - estimate(j, x)) <= confidence(u, x) + confidence(j, x)) {
        all.insert(j);
      }
    }
    return all;
  }

  // ---- items

  std::optional<std::uint64_t> key(const Arm& arm) const {
    if (identity_ == Identity::kIds && arm.item != kNoItem) {
      return index(arm.item);
    }
    return identity_ == Identity::kBlocks ? std::optional<std::uint64_t>(arm.features.offset)
                                          : std::nullopt;
  }

  std::optional<std::size_t> nearest(const Eigen::VectorXd& x) const {
    std::optional<std::size_t> best;
    for (std::size_t item = 0; item < items_.size(); ++item) {
      if (!best || (items_[item].x - x).norm() < (items_[*best].x - x).norm()) {
        best = item;
      }
    }
    return best;
  }

  std::size_t graph_of(const Arm& arm) const {
    const std::optional<std::uint64_t> number = key(arm);
    if (number && known_.count(*number) != 0) {
      return items_[known_.at(*number)].graph;
    }
    const std::optional<std::size_t> item = nearest(whole(arm.features));
    return item ? items_[*item].graph : 0;
  }

  std::set<std::size_t> component(std::size_t item) const {
    std::set<std::size_t> found = {item};
    std::vector<std::size_t> queue = {item};
    while (!queue.empty()) {
      const std::size_t node = queue.back();
      queue.pop_back();
      for (std::size_t other = 0; other < items_.size(); ++other) {
        if (linked_[node][other] && found.insert(other).second) {
          queue.push_back(other);
        }
      }
    }
    return found;
  }

  void add_item(const Eigen::VectorXd& x, std::optional<std::size_t> like) {
    std::set<std::size_t> neighbours;
    if (like) {
      neighbours = component(*like);
    }
    items_.push_back({x, like ? items_[*like].graph : 0});
    for (std::vector<bool>& row : linked_) {
      row.push_back(false);
    }
    linked_.emplace_back(items_.size(), false);
    for (const std::size_t other : neighbours) {
      linked_[other].back() = linked_.back()[other] = true;
    }
  }

  std::optional<std::size_t> meet(const Arm& arm) {
    const Eigen::VectorXd x = whole(arm.features);
    const bool too_many =
        items_.size() == options_.most_items && known_.count(index(arm.item)) == 0;
    if (identity_ == Identity::kIds && (arm.item == kNoItem || too_many)) {
      identity_ =
          arm.features.values.size() < shape_.inputs ? Identity::kBlocks : Identity::kGroups;
      items_.clear();
      linked_.clear();
      known_.clear();
      graphs_.assign(1, fresh_graph());
    }
    if (identity_ == Identity::kGroups) {
      if (items_.empty() && sample_.size() == 5 * options_.item_groups * shape_.inputs) {
        const KMeans found = k_means(sample_, shape_.inputs, options_.item_groups, seed_);
        for (std::size_t i = 0; i < found.centres.size(); i += shape_.inputs) {
          add_item(whole({std::span(found.centres).subspan(i, shape_.inputs), 0}),
                   items_.empty() ? std::nullopt : std::optional<std::size_t>(0));
        }
      }
      return nearest(x);
    }
    const std::uint64_t number = key(arm).value();
    if (known_.count(number) == 0) {
      const std::optional<std::size_t> like = nearest(x);
      known_[number] = items_.size();
      add_item(x, like);
    }
    items_[known_[number]].x = x;
    return known_[number];
  }

  NetworkShape shape_;
  CofibaOptions options_;
  std::uint64_t seed_;
  std::vector<std::size_t> met_;  // users, in the order of their first samples
  std::vector<User> users_;
  std::vector<PlainUserGraph> graphs_;
  Identity identity_ = Identity::kIds;
  std::map<std::uint64_t, std::size_t> known_;  // items by id or offset
  std::vector<Item> items_;
  std::vector<std::vector<bool>> linked_;
  std::vector<float> sample_;
  std::uint64_t time_ = 1;
};

}  // namespace mcnb::cases
