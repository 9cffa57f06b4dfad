#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/linear/linear_state.h"
#include "mcnb/bandit/linear/user_graph.h"
#include "mcnb/bandit/linear/user_rows.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/ridge.h"
#include "mcnb/numeric/sample_sums.h"

namespace mcnb {

// The own regression of a known user.
class UserRegression {
 public:
  UserRegression(std::size_t dimension, double lambda) : tracked_(dimension, lambda) {}

  const SampleSums& samples() const { return tracked_.samples(); }
  std::span<const double> weights() const {
    return {tracked_.weights().data(), static_cast<std::size_t>(tracked_.weights().size())};
  }
  double width() const { return width_; }  // F(T)

  void add(std::span<const float> x, float reward) {
    tracked_.add(x, reward);
    width_ = confidence_width(samples().count());
  }
  // See TrackedWeights.
  template <class AddSamples>
  void add_many(AddSamples add_samples) {
    tracked_.add_many(add_samples);
    width_ = confidence_width(samples().count());
  }

  std::size_t memory_bytes() const { return tracked_.memory_bytes(); }  // without sizeof *this
  void save(StateWriter& writer) const { tracked_.save(writer); }
  void load(StateReader& reader) {
    tracked_.load(reader);
    width_ = confidence_width(samples().count());
  }

 private:
  TrackedWeights tracked_;
  double width_ = confidence_width(0);
};

// The regressions of the components of a user graph, each over the samples of all members.
//
// A regression is made from its members' samples when it is first needed, and takes further samples
// one by one. Regressions are large: those that have taken none since they were made can be made
// again without loss, and few of these are kept.
class ComponentRegressions {
 public:
  // Borrows the graph, its known users, and their regressions by row.
  ComponentRegressions(const UserRows& known, const UserGraph& graph,
                       const std::vector<UserRegression>& users, std::size_t dimension,
                       double lambda)
      : known_(known), graph_(graph), users_(users), dimension_(dimension), lambda_(lambda) {}

  // Makes the regression of a component if there is none.
  void prepare(std::uint32_t component);
  // Requires `prepare`, and no `drop_idle` since. Threads may read at the same time.
  const RidgeState& find(std::uint32_t component) const { return *groups_[component].state; }
  // Adds a sample of a member. Requires `prepare`, before the member's own regression took it: so
  // the bits do not depend on whether the component was needed earlier.
  void add(std::uint32_t component, std::span<const float> x, float reward);

  // The component has lost members.
  void forget(std::uint32_t component) { groups_[component] = {}; }
  // The numbers of all components have changed.
  void clear();
  // The regressions of all users have changed. Makes those that were needed lately on all threads,
  // because they will be needed again.
  void rebuild(ThreadPool& threads);
  // Drops those that can be made again without loss, if there are many.
  void drop_idle();

  std::size_t memory_bytes() const;  // without sizeof *this
  // Keeps those that have taken samples.
  void save(StateWriter& writer) const;
  // Expects the graph and the users to be loaded already.
  void load(StateReader& reader);

 private:
  struct Group {
    std::optional<RidgeState> state;
    bool learned = false;  // it has taken samples since it was made
  };

  SampleSums samples_of(std::uint32_t component) const;

  const UserRows& known_;
  const UserGraph& graph_;
  const std::vector<UserRegression>& users_;
  std::size_t dimension_;
  double lambda_;
  std::vector<Group> groups_;        // by component, up to the last that was needed
  std::vector<std::uint32_t> idle_;  // components whose state may be dropped
};

}  // namespace mcnb
