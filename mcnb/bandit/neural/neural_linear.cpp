#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/bandit/input_names.h"
#include "mcnb/bandit/linear/club_rule.h"
#include "mcnb/bandit/neural/component_regressions.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications
constexpr std::uint64_t kWidest = 4096;         // a regression then has 256 MiB

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

// NeuralLinear: CLUB on the last hidden layer h(x) of one network for all users.
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
        graph_(make_user_graph(options.clustering.graph, known_, setup.seed)),
        components_(known_, *graph_, users_, shape().width, options.clustering.lambda) {}

  // The decision: `choose` takes the arm with the highest score. An arm is scored with the ridge
  // regression (M, w) of its user's component, over the samples of all members.
  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    check_round(round, user_count(), shape());
    prepare_components(round);  // (M, w)
    const double scale = exploration_scale(options_.clustering.alpha, model_.reward_count());
    return for_each_arm(round, [&](const Arm& arm, std::span<const float> hidden) {  // h(x)
      const std::uint32_t component = graph_->component(arm.user);
      const RidgePrediction said = components_.find(component).predict(hidden);
      const double estimate =  // h.w
          options_.nonnegative ? std::max(0.0, said.estimate) : said.estimate;
      // alpha sqrt(h^T M^-1 h * log(1 + t))
      return Score(estimate, {{"uncertainty", scale * said.uncertainty}}, graph_->size(arm.user));
    });
  }

  // The update with the reward r of the arm x of user u. Each user has a regression of its own,
  // with weights w and T samples; F is that of CLUB (club.cpp).
  void learn(RoundId round, const Arm& arm, float reward) override {
    check_feedback(round, arm, reward, user_count(), shape());
    // history += (x, r); M += h h^T and b += r h, for u and for its component
    add_sample(arm.user, {arm.features, reward}, [&] { return feedback_name(round, arm); });
    // cut every edge (u, j) with ||w_u - w_j|| > alpha_2 (F(T_u) + F(T_j))
    cut_edges(arm.user);
    // t += 1; if a training is due: train h on the history, and rebuild all regressions
    model_.count_reward([&] { rebuild(); });
  }

  // Cuts no edges.
  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, user_count(), shape());
    add_sample(user, sample, [&] { return start_name(user); });
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    check_arm(arm, user_count(), shape());
    return graph_->members(arm.user);
  }

  std::size_t user_count() const override { return known_.user_count(); }

  void add_users(std::size_t count) override {
    known_.add_users(count);
    if (graph_->add_users(count)) {
      components_.clear();
    }
  }

  StepCounts steps() const override { return {.training = model_.step_count()}; }
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

 private:
  const NetworkShape& shape() const { return model_.shape(); }

  // Returns h(x), which is a part of `activations`. `where` names the sample in errors.
  template <class Where>
  std::span<const float> find_hidden(const Features& x, std::vector<float>& activations,
                                     Where where) const {
    const float value =
        kernels::forward(shape(), model_.network().data(), x.values, x.offset, activations.data());
    check_value(value, where);
    return std::span(activations)
        .subspan((shape().depth - 2) * shape().padded_width(), shape().width);
  }

  // Makes the regressions that the round needs, so that the threads of `for_each_arm` only read.
  void prepare_components(const Round& round) {
    components_.drop_idle();
    for (const Arm& arm : round.arms) {
      components_.prepare(graph_->component(arm.user));
    }
  }

  template <class ScoreArm>
  std::vector<Score> for_each_arm(const Round& round, ScoreArm score_arm) const;
  template <class Where>
  void add_sample(UserId user, const Sample& sample, Where where);
  void cut_edges(UserId user);
  void rebuild();
  std::vector<std::vector<EventId>> events_by_row() const;

  NeuralLinearOptions options_;
  ThreadPool& threads_;
  NeuralModel model_;           // h, the history, and t
  std::vector<UserId> owners_;  // by event: whose sample it is in the model's history
  UserRows known_;
  std::unique_ptr<UserGraph> graph_;
  std::vector<UserRegression> users_;  // by row of the known users
  ComponentRegressions components_;
  UserGraph::Links links_;  // scratch
};

// Returns score_arm(arm, h(x)) of all arms. Threads share the arms.
template <class ScoreArm>
std::vector<Score> NeuralLinear::for_each_arm(const Round& round, ScoreArm score_arm) const {
  std::vector<Score> scores(round.arms.size());
  const std::size_t cost = (round.arms[0].features.values.size() + shape().width) * shape().width;
  threads_.parallel_for(
      scores.size(), kWorthAThread / cost + 1, [&](std::size_t begin, std::size_t end) {
        std::vector<float> activations(shape().hidden_count());
        for (std::size_t i = begin; i < end; ++i) {
          const Arm& arm = round.arms[i];
          const auto where = [&] { return arm_name(round.id, i); };
          scores[i] = score_arm(arm, find_hidden(arm.features, activations, where));
        }
      });
  return scores;
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
  if (row == users_.size()) {
    users_.emplace_back(shape().width, options_.clustering.lambda);
    graph_->meet(user);
  }
  const std::uint32_t component = graph_->component(user);
  components_.prepare(component);
  components_.add(component, hidden, sample.reward);
  users_[row].add(hidden, sample.reward);
}

void NeuralLinear::cut_edges(UserId user) {
  const UserRegression& own = users_[*known_.row(user)];
  graph_->find_links(user, links_);
  keep_distant(
      links_, options_.clustering.alpha_2, {squared_norm(own.weights()), own.width()},
      [&](std::uint32_t row) { return squared_distance(own.weights(), users_[row].weights()); },
      [&](std::uint32_t row) { return users_[row].width(); });
  if (links_.rows.empty() && !links_.unknown) {
    return;
  }
  const std::uint32_t before = graph_->component(user);
  const std::vector<std::uint32_t> parts = graph_->cut(user, links_);
  if (!parts.empty()) {
    components_.forget(before);  // parts that split off have no regression yet
  }
}

// Follows a training: computes h of all samples again. If it throws, it has changed nothing.
void NeuralLinear::rebuild() {
  const Histories& history = model_.history();
  const std::vector<std::vector<EventId>> events = events_by_row();
  std::vector<UserRegression> rebuilt(users_.size(),
                                      UserRegression(shape().width, options_.clustering.lambda));
  const std::size_t users_at_once = users_.size() / (4 * threads_.thread_count()) + 1;
  threads_.parallel_for(users_.size(), users_at_once, [&](std::size_t begin, std::size_t end) {
    std::vector<float> activations(shape().hidden_count());
    const auto where = [&] {
      return fmt::format("the training after {} rewards", model_.reward_count());
    };
    for (std::size_t row = begin; row < end; ++row) {
      rebuilt[row].add_many([&](SampleSums& samples) {
        for (const EventId event : events[row]) {
          const Sample sample = history.sample(event);
          samples.add(find_hidden(sample.features, activations, where), sample.reward);
        }
      });
    }
  });
  users_ = std::move(rebuilt);
  components_.rebuild(threads_);
}

// By row: the user's samples in the history.
std::vector<std::vector<EventId>> NeuralLinear::events_by_row() const {
  const Histories& history = model_.history();
  std::vector<std::vector<EventId>> events(users_.size());
  for (std::size_t i = 0; i < history.event_slots(); ++i) {
    const EventId event{static_cast<std::uint32_t>(i)};
    if (!history.sample(event).features.values.empty()) {
      events[*known_.row(owners_[i])].push_back(event);
    }
  }
  return events;
}

std::size_t NeuralLinear::memory_bytes() const {
  std::size_t bytes = sizeof *this - sizeof known_ + model_.memory_bytes() +
                      owners_.capacity() * sizeof owners_[0] + known_.memory_bytes() +
                      graph_->memory_bytes() + users_.capacity() * sizeof users_[0] +
                      components_.memory_bytes();
  for (const UserRegression& user : users_) {
    bytes += user.memory_bytes();
  }
  return bytes;
}

void NeuralLinear::save(StateWriter& writer) const {
  known_.save(writer);
  graph_->save(writer);
  model_.save(writer);
  writer.write_all(owners_);
  for (const UserRegression& user : users_) {
    user.save(writer);
  }
  components_.save(writer);
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
  users_.clear();
  for (std::size_t row = 0; row < known_.count(); ++row) {
    users_.emplace_back(shape().width, options_.clustering.lambda).load(reader);
  }
  components_.load(reader);
}

}  // namespace

PolicyKind neural_linear_policy() {
  return policy_kind<NeuralLinear>(
      {.name = "neural-linear",
       .help = "CLUB on the last hidden layer of one neural network for all users",
       .paper = "Riquelme, Tucker, Snoek: Deep Bayesian Bandits Showdown, ICLR 2018; Gentile, Li, "
                "Zappella: Online Clustering of Bandits, ICML 2014"},
      option_table(), [](const NeuralLinearOptions& options, const PolicySetup& setup) {
        const auto width = static_cast<double>(options.neural.network.width);
        PolicySize size = network_policy_size(options.neural.network.shape(setup.inputs),
                                              NetworkUncertainty::kNone);
        size.fixed_bytes += 2.0 * ridge_bytes(width);  // of components that were needed lately
        // A user with few rewards keeps only their features.
        size.user_bytes = 600.0 + size.event_bytes + 24.0 * width;
        size.event_bytes += 24.0 * width;
        size.arm_operations += width * width;
        return size;
      });
}

}  // namespace mcnb
