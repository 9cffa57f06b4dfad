#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <functional>

#include "mcnb/bandit/linear/item_table.h"
#include "mcnb/bandit/linear/linear_clusters.h"
#include "mcnb/bandit/linear/linear_size.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/linear/pruned_graph.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/bandit/policy_kind.h"

namespace mcnb {
namespace {

constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications

enum class Items { kAuto, kGroups };

struct CofibaOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  double alpha_2 = 0.03;
  Items items = Items::kGroups;
  std::uint64_t most_items = ItemTable::kMost;
  std::uint64_t item_groups = 5;
};

OptionTable<CofibaOptions> option_table() {
  OptionTable<CofibaOptions> table;
  table.number("lambda", &CofibaOptions::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &CofibaOptions::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("alpha_2", &CofibaOptions::alpha_2, {0.0, 1e6},
              "weight of the uncertainty when users are compared, as a multiple of alpha")
      .choice("items", &CofibaOptions::items, {{"auto", Items::kAuto}, {"groups", Items::kGroups}},
              "how items are told apart: by id, up to most_items of them, or always by groups")
      .count("most_items", &CofibaOptions::most_items, {1, ItemTable::kMost},
             "the most items that are told apart by id; with more, groups are used")
      .count("item_groups", &CofibaOptions::item_groups, {1, 200},
             "the most groups of items with similar features");
  return table;
}

// COFIBA: users are clustered relative to items, and items by how they cluster users. The items are
// in a graph that loses edges. Each of its components has its own user graph, complete at the
// start.
//
// Choose: an arm is scored with the ridge state of its user's component in the user graph of its
// item: x.w + alpha sqrt(x^T M^-1 x * log(1 + t)).
// Learn, for a user u and an item with features x, after the sample is added and t counts it:
// - Users: in the user graph of the item, u loses its edge to every user j who disagrees about x:
//   |(w_u - w_j).x| > CB_u(x) + CB_j(x), CB(x) = alpha_2 alpha sqrt(x^T M^-1 x * log(1 + t)), where
//   w and M are each user's own.
// - Items: the item loses its edge to an item l if the users who agree with u about l, whatever
// their
//   edges, are not those who agree with u about x. If the items split, the part of x keeps the user
//   graph and each other part gets a fresh, complete one.
//
// item_table.h says how items are told apart and which features they have. An item joins the graph
// with its first feedback, linked to all items in the component of the item with the nearest
// features; until then the user graph of that component scores it. (In the paper all items exist
// from the beginning. Linked to everything, a new item would merge all components.) While no item
// is known, there is one user graph. Later users: user_graph.h.
//
// Two items agree only if their neighbourhoods are equal to the last user, so items soon stand
// alone. Then every user graph begins anew and sees only the feedback on its own item: the fewer
// items, the sooner users are told apart. That is why there are few groups by default.
//
// Start data only updates states. A round costs the squares of its arms' features and, for unknown
// items and for groups, the search for the nearest item. Feedback costs an update of every user
// graph that has lost edges. For each item still linked to x it compares users one by one up to the
// first difference: d multiplications for a user, and d^2 only if the other user's uncertainty
// decides. The first cut of a user graph sums up all users, n d^2.
class Cofiba final : public Policy {
 public:
  Cofiba(const CofibaOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        items_(setup.inputs,
               {.ids = options.items == Items::kAuto,
                .most = static_cast<std::size_t>(options.most_items),
                .groups = static_cast<std::size_t>(options.item_groups)},
               setup.seed),
        fresh_(users_, complete_user_graph(users_.known())),
        threads_(*setup.threads) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override {
    users_.add_users(count);
    fresh_.add_users(count);
    for (LinearClusters* clusters : all_cut()) {
      clusters->add_users(count);
    }
  }

  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    add(user, sample.features, sample.reward);
    items_.start(sample.features);
  }

  ArmIndex choose(const Round& round) override {
    users_.check_round(round);
    return choose_arm(round, upper_bounds(), std::bind_front(&Cofiba::find_ridge, this));
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    return score_arms(round, upper_bounds(), std::bind_front(&Cofiba::find_ridge, this),
                      [this](const Arm& arm) { return clusters_for(arm).graph().size(arm.user); });
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    users_.check_arm(arm);
    return clusters_for(arm).graph().members(arm.user);
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    const std::uint32_t block = add(arm.user, arm.features, reward);
    ++rewards_;
    const std::optional<std::uint32_t> item = meet_item(arm, block);
    const Probe probe = make_probe(arm.user, arm.features);
    std::vector<char> agree(users_.known_count());
    for (std::uint32_t row = 0; row < agree.size(); ++row) {
      agree[row] = agrees(probe, row) ? 1 : 0;
    }
    cut_users(arm.user, component_of(item), probe, agree);
    if (item) {
      cut_items(arm.user, *item, probe, agree);
    }
  }

  std::size_t memory_bytes() const override {
    std::size_t bytes = sizeof *this - sizeof users_ - sizeof items_ - sizeof item_graph_ -
                        sizeof fresh_ + users_.memory_bytes() + items_.memory_bytes() +
                        item_graph_.memory_bytes() + fresh_.memory_bytes() +
                        clusters_.capacity() * sizeof clusters_[0];
    for (const LinearClusters* clusters : all_cut()) {
      bytes += clusters->memory_bytes();
    }
    return bytes;
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    items_.save(writer);
    item_graph_.save(writer);
    fresh_.save(writer);
    for (const auto& clusters : clusters_) {
      writer.write(static_cast<std::uint8_t>(clusters != nullptr ? 1 : 0));
      if (clusters != nullptr) {
        clusters->save(writer);
      }
    }
    writer.write(rewards_);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    items_.load(reader, users_.blocks());
    item_graph_.load(reader, items_.size());
    if (item_graph_.node_count() != items_.size()) {
      reader.fail("an item graph is not that of its items");
    }
    fresh_.load(reader);
    if (users_.count() > 0 && fresh_.graph().component_count() != 1) {
      reader.fail("a fresh user graph has lost edges");
    }
    clusters_.clear();
    clusters_.resize(std::max<std::size_t>(1, item_graph_.component_count()));
    for (std::unique_ptr<LinearClusters>& clusters : clusters_) {
      if (reader.read<std::uint8_t>() != 0) {
        clusters = fresh_clusters();
        clusters->load(reader);
      }
    }
    rewards_ = reader.read<std::uint64_t>();
  }

 private:
  // The opinion of one user about one point, with which others are compared.
  struct Probe {
    Features features;
    std::optional<std::uint32_t> block;
    Eigen::VectorXd x;
    double scale = 0.0;     // of uncertainties
    double estimate = 0.0;  // of the user
    double width = 0.0;     // CB of the user
    double widest = 0.0;    // CB of a user without samples, the largest of all
  };

  UpperBounds upper_bounds() const {
    return {users_, threads_, exploration_scale(options_.alpha, rewards_)};
  }

  std::unique_ptr<LinearClusters> fresh_clusters() const {
    return std::make_unique<LinearClusters>(users_, complete_user_graph(users_.known()));
  }

  std::uint32_t component_of(std::optional<std::uint32_t> item) const {
    return item ? item_graph_.component(*item) : 0;
  }

  const LinearClusters& clusters_of(std::uint32_t component) const {
    return clusters_[component] == nullptr ? fresh_ : *clusters_[component];
  }

  const LinearClusters& clusters_for(const Arm& arm) const {
    if (clusters_.size() == 1) {
      return clusters_of(0);
    }
    return clusters_of(component_of(items_.find(arm, users_.blocks().find(arm.features))));
  }

  const RidgeState* find_ridge(const Arm& arm, std::uint32_t block) const {
    return clusters_for(arm).find(arm.user, block);
  }

  std::vector<LinearClusters*> all_cut() const {
    std::vector<LinearClusters*> all;
    for (const auto& clusters : clusters_) {
      if (clusters != nullptr) {
        all.push_back(clusters.get());
      }
    }
    return all;
  }

  // Adds a sample of a user to all states; returns its block.
  std::uint32_t add(UserId user, const Features& features, double reward) {
    const LinearUsers::Added added = users_.add(user, features, reward);
    std::vector<LinearClusters*> all = all_cut();
    all.push_back(&fresh_);
    const std::size_t cost = features.values.size() * features.values.size();
    threads_.parallel_for(all.size(), std::max<std::size_t>(1, kWorthAThread / cost),
                          [&](std::size_t begin, std::size_t end) {
                            for (std::size_t i = begin; i < end; ++i) {
                              all[i]->add(added, features, reward);
                            }
                          });
    return added.block;
  }

  std::optional<std::uint32_t> meet_item(const Arm& arm, std::uint32_t block) {
    const ItemTable::Meeting meeting = items_.learn(arm, block);
    if (meeting.began_anew) {
      item_graph_ = {};
      clusters_.clear();
      clusters_.resize(1);
    }
    while (item_graph_.node_count() < items_.size()) {
      item_graph_.add_node(component_of(meeting.like));
    }
    return meeting.item;
  }

  Probe make_probe(UserId user, const Features& features) const {
    Probe probe{.features = features, .block = users_.blocks().find(features)};
    probe.x = Eigen::Map<const Eigen::VectorXf>(features.values.data(),
                                                static_cast<Eigen::Index>(features.values.size()))
                  .cast<double>();
    probe.scale = options_.alpha_2 * exploration_scale(options_.alpha, rewards_);
    const RidgePrediction said = users_.predict(users_.find(user), features);
    probe.estimate = said.estimate;
    probe.width = probe.scale * said.uncertainty;
    probe.widest = probe.scale * users_.predict(nullptr, features).uncertainty;
    return probe;
  }

  bool agrees(const Probe& probe, std::uint32_t row) const {
    const std::span<const double> weights =
        probe.block ? users_.weights(row, *probe.block) : std::span<const double>();
    const double estimate =
        weights.empty()
            ? 0.0
            : probe.x.dot(Eigen::Map<const Eigen::VectorXd>(weights.data(), probe.x.size()));
    const double difference = std::abs(probe.estimate - estimate);
    if (difference <= probe.width) {
      return true;
    }
    if (difference > probe.width + probe.widest) {
      return false;
    }
    const RidgePrediction said = users_.predict(&users_.state(row), probe.features);
    return difference <= probe.width + probe.scale * said.uncertainty;
  }

  // Whether users without samples agree.
  static bool unknown_agree(const Probe& probe) {
    return std::abs(probe.estimate) <= probe.width + probe.widest;
  }

  void cut_users(UserId user, std::uint32_t component, const Probe& probe,
                 const std::vector<char>& agree) {
    clusters_of(component).graph().find_links(user, links_);
    std::erase_if(links_.rows, [&](std::uint32_t row) { return agree[row] != 0; });
    links_.unknown = links_.unknown && !unknown_agree(probe);
    if (links_.rows.empty() && !links_.unknown) {
      return;
    }
    if (clusters_[component] == nullptr) {
      clusters_[component] = fresh_clusters();
    }
    clusters_[component]->cut(user, links_);
  }

  void cut_items(UserId user, std::uint32_t item, const Probe& probe,
                 const std::vector<char>& agree) {
    std::vector<std::uint32_t> others;
    item_graph_.find_links(item, others);
    const bool any_unknown = users_.known().highest_unknown().has_value();
    std::vector<char> differs(others.size());
    const auto compare = [&](std::uint32_t other) {
      const Probe at_other = make_probe(user, items_.features(other));
      if (any_unknown && unknown_agree(at_other) != unknown_agree(probe)) {
        return true;
      }
      for (std::uint32_t row = 0; row < agree.size(); ++row) {
        if (agrees(at_other, row) != (agree[row] != 0)) {
          return true;
        }
      }
      return false;
    };
    const std::size_t cost = agree.size() * probe.features.values.size();
    threads_.parallel_for(others.size(), std::max<std::size_t>(1, kWorthAThread / cost),
                          [&](std::size_t begin, std::size_t end) {
                            for (std::size_t i = begin; i < end; ++i) {
                              differs[i] = compare(others[i]) ? 1 : 0;
                            }
                          });
    std::vector<std::uint32_t> cut;
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (differs[i] != 0) {
        cut.push_back(others[i]);
      }
    }
    if (!cut.empty()) {
      split_items(item, cut);
    }
  }

  void split_items(std::uint32_t item, std::span<const std::uint32_t> cut) {
    const std::uint32_t old = item_graph_.component(item);
    item_graph_.cut(item, cut);
    const std::uint32_t own = item_graph_.component(item);
    clusters_.resize(item_graph_.component_count());
    std::swap(clusters_[old], clusters_[own]);
  }

  CofibaOptions options_;
  LinearUsers users_;
  ItemTable items_;
  PrunedGraph item_graph_;
  LinearClusters fresh_;  // stands for all user graphs that have lost no edge
  // The other user graphs, by component of the item graph; nullptr stands for fresh_. There is one
  // component before there are items.
  std::vector<std::unique_ptr<LinearClusters>> clusters_{1};
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
  UserGraph::Links links_;  // scratch
};

}  // namespace

PolicyKind cofiba_policy() {
  return policy_kind<Cofiba>(
      {.name = "cofiba",
       .help = "ridge regression for clusters of users relative to clusters of items; newcomers "
               "join those who have not been served, or the largest cluster",
       .paper = "Li, Karatzoglou, Gentile: Collaborative Filtering Bandits, SIGIR 2016",
       .values_before = {{"alpha_2", "1"}, {"items", "auto"}, {"item_groups", "20"}}},
      option_table(), [](const CofibaOptions&, const PolicySetup& setup) {
        return linear_policy_size(setup, {.states = 2.0, .shared_states = 0.0});
      });
}

}  // namespace mcnb
