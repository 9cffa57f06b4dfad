#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/bandit/linear/club_rule.h"
#include "mcnb/bandit/linear/linear_state.h"
#include "mcnb/bandit/linear/user_graph.h"
#include "mcnb/bandit/linear/user_rows.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/sample_sums.h"

namespace mcnb {
namespace {

constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications
constexpr std::uint64_t kWidest = 4096;         // a regression then has 256 MiB
constexpr std::size_t kMostIdleStates = 64;     // that can be made again without loss

struct NeuralLinearOptions {
  ClubOptions clustering{.alpha_2 = 1.0};
  NeuralOptions neural;
  bool nonnegative = false;  // an estimate below zero counts as zero

  void check() const {
    if (neural.network.width > kWidest) {
      refuse_option("width",
                    fmt::format("at most {}, a regression has width x width numbers", kWidest),
                    std::to_string(neural.network.width));
    }
  }
};

OptionTable<NeuralLinearOptions> option_table() {
  OptionTable<NeuralLinearOptions> table;
  table.part(&NeuralLinearOptions::clustering, club_option_table())
      .part(&NeuralLinearOptions::neural, neural_option_table())
      .yes_no("nonnegative", &NeuralLinearOptions::nonnegative, kNonnegativeHelp);
  return table;
}

// NeuralLinear: CLUB on the last hidden layer h(x) of one network for all users. Users in a graph
// share what they know with everybody they are connected to.
//
// Choose: an arm is scored with the ridge regression of its user's component, which holds the
// samples of all members: h.w + alpha sqrt(h^T M^-1 h * log(1 + t)). Learn: the network, the user u
// and its component take the sample; then u loses its edge to every user j with ||w_u - w_j|| >
// alpha_2 (F(T_u) + F(T_j)); then the network trains if a training is due.
//
// A training changes h. All regressions are then rebuilt from the samples of the history. The graph
// stays as it is, because edges of CLUB never come back. With training = online, h moves a little
// with every sample, and samples keep the features that they had when they came.
//
// Rebuilding costs a forward pass for each sample, the weights of each user (TrackedWeights), and,
// for each component used since the last training, a pass over the users' sums and an inversion.
// Other components are rebuilt when one of their arms next comes up. A user with n < `width`
// samples costs no more than its features and n^2 numbers.
class NeuralLinear final : public Policy {
 public:
  NeuralLinear(const NeuralLinearOptions& options, const PolicySetup& setup)
      : options_(options),
        threads_(*setup.threads),
        model_(options.neural, setup.inputs, setup.seed),
        known_(setup.users),
        graph_(make_user_graph(options.clustering.graph, known_, setup.seed)) {}

  std::size_t user_count() const override { return known_.user_count(); }

  void add_users(std::size_t count) override {
    known_.add_users(count);
    if (graph_->add_users(count)) {
      groups_.clear();
    }
  }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, user_count(), shape());
    add_sample(user, sample, [&] { return fmt::format("start of user {}", index(user)); });
  }

  std::vector<Score> scores(const Round& round) override {
    check_round(round, user_count(), shape());
    drop_idle_states();
    for (const Arm& arm : round.arms) {
      group_of(graph_->component(arm.user));  // made here, so that the threads below only read
    }
    const double scale = exploration_scale(options_.clustering.alpha, model_.reward_count());
    std::vector<Score> scores(round.arms.size());
    const std::size_t cost = (round.arms[0].features.values.size() + shape().width) * shape().width;
    threads_.parallel_for(scores.size(), kWorthAThread / cost + 1,
                          [&](std::size_t begin, std::size_t end) {
                            std::vector<float> activations(shape().hidden_count());
                            for (std::size_t i = begin; i < end; ++i) {
                              scores[i] = score(round, i, scale, activations);
                            }
                          });
    return scores;
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    check_arm(arm, user_count(), shape());
    return graph_->members(arm.user);
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check_feedback(round, arm, reward, user_count(), shape());
    add_sample(arm.user, {arm.features, reward}, [&] {
      return fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
    });
    cut_edges(arm.user);
    model_.count_reward([&] { rebuild(); });
  }

  StepCounts steps() const override { return {.training = model_.step_count()}; }
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

 private:
  // The own regression of a known user.
  struct Person {
    Person(std::size_t dimension, double lambda) : regression(dimension, lambda) {}

    TrackedWeights regression;
    double width = confidence_width(0);  // F(T)
  };
  // The regression of a component, made from its members' samples when it is first needed.
  // `learned` says that samples were added to it one by one since then.
  struct Group {
    std::optional<RidgeState> state;
    bool learned = false;
  };

  const NetworkShape& shape() const { return model_.shape(); }

  // Returns h(x), which is a part of `activations`.
  template <class Where>
  std::span<const float> find_hidden(const Features& x, std::vector<float>& activations,
                                     Where where) const {
    const float value =
        kernels::forward(shape(), model_.network().data(), x.values, x.offset, activations.data());
    check_value(value, where);
    return std::span(activations)
        .subspan((shape().depth - 2) * shape().padded_width(), shape().width);
  }

  Score score(const Round& round, std::size_t i, double scale,
              std::vector<float>& activations) const;
  template <class Where>
  void add_sample(UserId user, const Sample& sample, Where where);
  void cut_edges(UserId user);
  void rebuild();
  void rebuild_groups();

  SampleSums samples_of_component(std::uint32_t component) const;
  Group& group_of(std::uint32_t component);
  void drop_idle_states();

  NeuralLinearOptions options_;
  ThreadPool& threads_;
  NeuralModel model_;
  std::vector<UserId> owners_;  // by event: whose sample it is in the model's history
  UserRows known_;
  std::unique_ptr<UserGraph> graph_;
  std::vector<Person> people_;       // by row of the known users
  std::vector<Group> groups_;        // by component, up to the last that was needed
  std::vector<std::uint32_t> idle_;  // components whose state may be dropped
  UserGraph::Links links_;           // scratch
};

Score NeuralLinear::score(const Round& round, std::size_t i, double scale,
                          std::vector<float>& activations) const {
  const Arm& arm = round.arms[i];
  const std::span<const float> hidden = find_hidden(arm.features, activations, [&] {
    return fmt::format("round {}, arm {}", index(round.id), i);
  });
  const RidgePrediction said = groups_[graph_->component(arm.user)].state->predict(hidden);
  const double estimate = options_.nonnegative ? std::max(0.0, said.estimate) : said.estimate;
  return Score(estimate, {{"uncertainty", scale * said.uncertainty}}, graph_->size(arm.user));
}

// `where` names the sample in errors.
template <class Where>
void NeuralLinear::add_sample(UserId user, const Sample& sample, Where where) {
  std::vector<float> activations(shape().hidden_count());
  const std::span<const float> hidden = find_hidden(sample.features, activations, where);
  if (const std::optional<EventId> event = model_.take_in(sample, where)) {
    owners_.resize(model_.history().event_slots());
    owners_[index(*event)] = user;
  }
  const std::uint32_t row = known_.meet(user);
  if (row == people_.size()) {
    people_.emplace_back(shape().width, options_.clustering.lambda);
    graph_->meet(user);
  }
  // The group's regression is made before the sample is added: so its bits do not depend on whether
  // it was needed earlier.
  Group& group = group_of(graph_->component(user));
  group.state->add(hidden, sample.reward);
  group.learned = true;
  Person& person = people_[row];
  person.regression.add(hidden, sample.reward);
  person.width = confidence_width(person.regression.samples().count());
}

void NeuralLinear::cut_edges(UserId user) {
  const Person& own = people_[*known_.row(user)];
  const auto weights = [](const Person& person) {
    const Eigen::VectorXd& all = person.regression.weights();
    return std::span(all.data(), static_cast<std::size_t>(all.size()));
  };
  graph_->find_links(user, links_);
  keep_distant(
      links_, options_.clustering.alpha_2, {squared_norm(weights(own)), own.width},
      [&](std::uint32_t row) { return squared_distance(weights(own), weights(people_[row])); },
      [&](std::uint32_t row) { return people_[row].width; });
  if (links_.rows.empty() && !links_.unknown) {
    return;
  }
  const std::uint32_t before = graph_->component(user);
  const std::vector<std::uint32_t> parts = graph_->cut(user, links_);
  if (!parts.empty()) {
    groups_[before] = {};  // parts that split off have no state yet
  }
}

// If it throws, it has changed nothing.
void NeuralLinear::rebuild() {
  // By row: the user's samples in the history.
  const Histories& history = model_.history();
  std::vector<std::vector<EventId>> events(people_.size());
  for (std::size_t i = 0; i < history.event_slots(); ++i) {
    const EventId event{static_cast<std::uint32_t>(i)};
    if (!history.sample(event).features.values.empty()) {
      events[*known_.row(owners_[i])].push_back(event);
    }
  }
  std::vector<Person> rebuilt(people_.size(), Person(shape().width, options_.clustering.lambda));
  const std::size_t users_at_once = people_.size() / (4 * threads_.thread_count()) + 1;
  threads_.parallel_for(people_.size(), users_at_once, [&](std::size_t begin, std::size_t end) {
    std::vector<float> activations(shape().hidden_count());
    const auto where = [&] {
      return fmt::format("the training after {} rewards", model_.reward_count());
    };
    for (std::size_t row = begin; row < end; ++row) {
      rebuilt[row].regression.add_many([&](SampleSums& samples) {
        for (const EventId event : events[row]) {
          const Sample sample = history.sample(event);
          samples.add(find_hidden(sample.features, activations, where), sample.reward);
        }
      });
      rebuilt[row].width = confidence_width(rebuilt[row].regression.samples().count());
    }
  });
  people_ = std::move(rebuilt);
  rebuild_groups();
}

// Components that were needed will be needed again: made now, on all threads, they delay no round.
void NeuralLinear::rebuild_groups() {
  idle_.clear();
  for (std::uint32_t component = 0; component < groups_.size(); ++component) {
    if (groups_[component].state && idle_.size() < kMostIdleStates) {
      idle_.push_back(component);
    }
  }
  groups_.assign(groups_.size(), Group{});
  threads_.parallel_for(idle_.size(), 1, [&](std::size_t i, std::size_t) {
    groups_[idle_[i]].state = samples_of_component(idle_[i]).ridge(options_.clustering.lambda);
  });
}

SampleSums NeuralLinear::samples_of_component(std::uint32_t component) const {
  SampleSums all(shape().width);
  for (std::uint32_t row = 0; row < people_.size(); ++row) {
    if (graph_->component(known_.user(row)) == component) {
      all.merge(people_[row].regression.samples());
    }
  }
  return all;
}

NeuralLinear::Group& NeuralLinear::group_of(std::uint32_t component) {
  groups_.resize(std::max(groups_.size(), component + std::size_t{1}));
  Group& group = groups_[component];
  if (!group.state) {
    group.state = samples_of_component(component).ridge(options_.clustering.lambda);
    idle_.push_back(component);
  }
  return group;
}

// States are large. If there are many, drops those that can be made again without loss.
void NeuralLinear::drop_idle_states() {
  if (idle_.size() <= kMostIdleStates) {
    return;
  }
  for (const std::uint32_t component : idle_) {
    if (component < groups_.size() && !groups_[component].learned) {
      groups_[component].state.reset();
    }
  }
  idle_.clear();
}

std::size_t NeuralLinear::memory_bytes() const {
  std::size_t bytes = sizeof *this - sizeof known_ + model_.memory_bytes() +
                      owners_.capacity() * sizeof owners_[0] + known_.memory_bytes() +
                      graph_->memory_bytes() + people_.capacity() * sizeof people_[0] +
                      groups_.capacity() * sizeof groups_[0];
  for (const Person& person : people_) {
    bytes += person.regression.memory_bytes();
  }
  for (const Group& group : groups_) {
    bytes += group.state ? group.state->memory_bytes() - sizeof *group.state : 0;
  }
  return bytes;
}

void NeuralLinear::save(StateWriter& writer) const {
  known_.save(writer);
  graph_->save(writer);
  model_.save(writer);
  writer.write_all(owners_);
  for (const Person& person : people_) {
    person.regression.save(writer);
  }
  // Other states can be made again from the members' samples.
  const auto learned = std::ranges::count_if(groups_, &Group::learned);
  writer.write(static_cast<std::uint64_t>(learned));
  for (std::uint32_t component = 0; component < groups_.size(); ++component) {
    if (groups_[component].learned) {
      writer.write(component);
      groups_[component].state->save(writer);
    }
  }
}

void NeuralLinear::load(StateReader& reader) {
  known_.load(reader);
  graph_->load(reader);
  model_.load(reader);
  const Histories& history = model_.history();
  owners_ = reader.read_all<UserId>(history.event_slots());
  if (owners_.size() != history.event_slots()) {
    reader.fail("there is not one owner for each sample");
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    const bool is_free =
        history.sample(EventId{static_cast<std::uint32_t>(i)}).features.values.empty();
    if (!is_free && !known_.row(owners_[i])) {
      reader.fail("a sample belongs to a user who is not known");
    }
  }
  people_.clear();
  groups_.clear();
  idle_.clear();
  for (std::size_t row = 0; row < known_.count(); ++row) {
    Person& person = people_.emplace_back(shape().width, options_.clustering.lambda);
    person.regression.load(reader);
    person.width = confidence_width(person.regression.samples().count());
  }
  std::vector<std::uint64_t> samples(graph_->component_count() + 1);
  for (std::uint32_t row = 0; row < people_.size(); ++row) {
    const std::uint32_t component = graph_->component(known_.user(row));
    samples.resize(std::max(samples.size(), component + std::size_t{1}));
    samples[component] += people_[row].regression.samples().count();
  }
  const auto learned = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < learned; ++i) {
    const auto component = reader.read<std::uint32_t>();
    if (component >= samples.size() || component < groups_.size()) {
      reader.fail("a regression belongs to no component");
    }
    groups_.resize(component + std::size_t{1});
    groups_[component] = {RidgeState::load(reader), true};
    const RidgeState& state = *groups_[component].state;
    if (state.dimension() != shape().width || state.lambda() != options_.clustering.lambda ||
        state.sample_count() != samples[component]) {
      reader.fail("a regression is not that of its users");
    }
  }
}

}  // namespace

PolicyKind neural_linear_policy() {
  return policy_kind<NeuralLinear>(
      {.name = "neural-linear",
       .help = "CLUB on the last hidden layer of one neural network for all users",
       .paper = "Riquelme, Tucker, Snoek: Deep Bayesian Bandits Showdown, ICLR 2018; Gentile, Li, "
                "Zappella: Online Clustering of Bandits, ICML 2014"},
      option_table());
}

}  // namespace mcnb
