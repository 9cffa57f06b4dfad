#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/mcnb/walk_order.h"
#include "mcnb/base/random.h"
#include "tests/numeric/plain_network.h"

// The oracle for the tests of M-CNB.
namespace mcnb::textbook {

using plain::PlainNetwork;

// A stored (x, r) and its number in the order of arrival.
struct Event {
  std::uint64_t number = 0;
  plain::OwnFeatures x;
  float reward = 0.0F;
};

// M-CNB as the paper writes it down: an explicit vector of parameters, in double precision, for
// the meta-learner and for every user; whole gradients; adapted networks that are really computed;
// histories that are plain lists. It shares the addresses of its random draws with the fast
// implementation, and nothing else.
//
// Gradients jump when a hidden unit switches on. The textbook reports how near it came to that (its
// margin, see PlainNetwork): below about 1e-5 single precision may land on the other side.
class TextbookMcnb {
 public:
  using Members = std::vector<std::size_t>;  // ascending
  using Arrange = std::function<void(std::vector<Event>&)>;

  // What is known about the cluster of an arm: all members, or those that a walk met.
  struct Found {
    Found() = default;
    Found(Members all) : members(std::move(all)), size(members.size()) {}

    Members members;
    std::size_t size = 0;
    std::size_t visited = 0;  // by the walk
    bool is_enough = false;   // in the order of the walk, for all steps
  };

  TextbookMcnb(const McnbOptions& options, std::uint32_t inputs, std::size_t users,
               std::uint64_t seed)
      : options_(options),
        seed_(seed),
        start_(options.network.shape(inputs),
               random_network(options.network.shape(inputs), options.network.initialisation, seed)),
        theta_(start_) {
    add_users(users);
  }

  void add_users(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      users_.emplace_back(start_);
    }
  }

  void start(UserId user, const Sample& sample) {
    const Event event = make_event(sample.features, sample.reward);
    take(index(user), event, true);
    users_[index(user)].has_own_datum = true;
  }

  std::size_t user_count() const { return users_.size(); }
  double gap() const { return options_.gamma * (options_.nu - 1.0) / options_.nu; }

  // |f(x; theta^v) - f(x; theta^u)| for every user v, where u is the user of the arm.
  std::vector<double> differences(const Arm& arm) const {
    const double own = users_[index(arm.user)].learner.value(arm.features);
    std::vector<double> all;
    for (const User& user : users_) {
      all.push_back(std::abs(user.learner.value(arm.features) - own));
    }
    return all;
  }

  // With scan=sampled, what a walk over the users with a history finds of these members.
  Found walk(RoundId round, const Arm& arm, const Members& all) const {
    Members order;
    if (!listed_.empty()) {
      const WalkOrder numbers(seed_, round, listed_.size());
      for (std::uint64_t i = 0; i < numbers.domain(); ++i) {
        if (numbers.permuted(i) < listed_.size()) {
          order.push_back(listed_[numbers.permuted(i)]);
        }
      }
    }
    Found found;
    const auto is_in = [](const Members& members, std::size_t v) {
      return std::ranges::find(members, v) != members.end();
    };
    for (const std::size_t v : order) {
      if (found.is_enough || (options_.scan_limit > 0 && found.visited == options_.scan_limit)) {
        break;
      }
      ++found.visited;
      if (is_in(all, v)) {
        found.members.push_back(v);
        found.is_enough = found.members.size() == options_.meta_samples * options_.meta_steps;
      }
    }
    const std::size_t u = index(arm.user);
    if (!found.is_enough) {
      if (!users_[u].history.empty() && !is_in(found.members, u)) {
        found.members.push_back(u);
      }
      std::ranges::sort(found.members);
    }
    const double count = static_cast<double>(found.members.size());
    found.size = found.members.size();
    if (found.visited < order.size() && found.size > 0) {
      const double others = std::max(1.0, static_cast<double>(found.visited) - 1.0);
      const double estimate = (count - 1.0) / others * static_cast<double>(order.size());
      found.size = static_cast<std::size_t>(std::round(std::max(count, estimate)));
    }
    for (const std::size_t v : all) {
      found.size += users_[v].history.empty() ? 1 : 0;
    }
    return found;
  }

  // Theta after SGD_Meta for these members. Lowers `margin`, if given, to the smallest margin met.
  PlainNetwork adapted(RoundId round, const Arm& arm, const Found& found,
                       double* margin = nullptr) const {
    PlainNetwork theta = theta_;
    for (std::uint64_t step = 0; step < options_.meta_steps; ++step) {
      const auto step_and_arm = static_cast<std::uint32_t>(step << 16 | index(arm.index));
      const Members taking_part = found.is_enough
                                      ? next_members(found.members, step)
                                      : participants(round, step_and_arm, found.members);
      std::vector<double> gradient(theta.parameters().size(), 0.0);
      for (const std::size_t v : taking_part) {
        const std::vector<Event> drawn = draws_of(round, step_and_arm, v);
        const double weight = 1.0 / static_cast<double>(taking_part.size() * drawn.size());
        for (const Event& event : drawn) {
          note(theta, event.x.view(), margin);
          const double error = theta.value(event.x.view()) - event.reward;
          const std::vector<double> of_event = theta.gradient(event.x.view());
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            gradient[i] += weight * error * of_event[i];
          }
        }
      }
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        theta.parameters()[i] -= options_.eta_2 * gradient[i];
      }
    }
    return theta;
  }

  Score score(RoundId round, const Arm& arm, const Found& found, double* margin = nullptr) const {
    const PlainNetwork theta = adapted(round, arm, found, margin);
    note(theta, arm.features, margin);
    note(start_, arm.features, margin);
    const double moved =
        plain::distance(theta.gradient(arm.features), start_.gradient(arm.features));
    const double mu = static_cast<double>(std::max<std::uint64_t>(trained(arm.user), 1));
    const double meta =
        options_.exploration * moved / std::pow(static_cast<double>(options_.network.width), 0.25);
    const double user =
        options_.exploration * (std::sqrt((options_.s + 1.0) / (2.0 * mu)) +
                                std::sqrt(2.0 * std::log(1.0 / options_.delta) / mu));
    Score score(theta.value(arm.features), {{"meta", meta}, {"user", user}}, found.size);
    if (options_.scan == Scan::kSampled) {
      score.cluster_sample = ClusterSample{found.members.size(), found.visited};
    }
    return score;
  }

  // `arrange` puts the stored events into the order of their slots, for the training of Theta.
  // Returns the smallest margin.
  double learn(RoundId round, const Arm& arm, float reward, const Found& found,
               const Arrange& arrange) {
    margin_ = 1.0;
    const bool online = options_.training == TrainingMode::kOnline;
    if (online) {
      theta_ = adapted(round, arm, found, &margin_);
    }
    User& served = users_[index(arm.user)];
    const Event event = make_event(arm.features, reward);
    if (options_.feedback == Feedback::kServed || !served.has_own_datum) {
      take(index(arm.user), event, online);
    } else {
      for (const std::size_t v : found.members) {
        take(v, event, online);
      }
    }
    served.has_own_datum = true;
    ++feedbacks_;
    const std::uint64_t every = feedbacks_ <= options_.replay.train_often_until
                                    ? options_.replay.train_every
                                    : options_.replay.train_every_later;
    if (!online && feedbacks_ % every == 0) {
      train(served.learner, served.history, options_.user_steps, 0);
      std::vector<Event> events = stored_events();
      arrange(events);
      train(theta_, events, options_.theta_steps, 1);
    }
    return margin_;
  }

  // Takes over the single-precision parameters after the two landed on different sides of a jump.
  void follow(const Mcnb& fast) {
    const std::span<const float> theta = fast.meta_learner().parameters();
    theta_.parameters().assign(theta.begin(), theta.end());
    for (std::uint32_t user = 0; user < users_.size(); ++user) {
      const std::span<const float> own = fast.user_learners().parameters(UserId{user});
      users_[user].learner.parameters().assign(own.begin(), own.end());
    }
  }

  const std::vector<double>& theta() const { return theta_.parameters(); }
  double plain_estimate(const Features& x) const { return theta_.value(x); }
  const std::vector<double>& learner(std::size_t user) const {
    return users_[user].learner.parameters();
  }
  const std::vector<Event>& history(std::size_t user) const { return users_[user].history; }
  std::uint64_t trained(UserId user) const { return users_[index(user)].trained; }
  std::uint64_t trainings() const { return trainings_; }

  // Every event that some history holds, listed once.
  std::vector<Event> stored_events() const {
    std::map<std::uint64_t, Event> held;
    for (const User& user : users_) {
      for (const Event& event : user.history) {
        held.emplace(event.number, event);
      }
    }
    std::vector<Event> events;
    for (const auto& [number, event] : held) {
      events.push_back(event);
    }
    return events;
  }

 private:
  struct User {
    explicit User(const PlainNetwork& start) : learner(start) {}

    PlainNetwork learner;
    std::vector<Event> history;
    std::uint64_t trained = 0;  // mu
    std::uint64_t joined = 0;   // events that were ever added to the history
    bool has_own_datum = false;
  };

  static void note(const PlainNetwork& network, const Features& x, double* margin) {
    if (margin != nullptr) {
      *margin = std::min(*margin, network.margin(x));
    }
  }

  Event make_event(const Features& x, float reward) {
    return {events_++, {{x.values.begin(), x.values.end()}, x.offset}, reward};
  }

  void take(std::size_t v, const Event& event, bool step) {
    User& user = users_[v];
    if (step) {
      note(user.learner, event.x.view(), &margin_);
      user.learner.sgd_step(event.x.view(), event.reward, options_.eta_1);
    }
    ++user.trained;
    if (user.history.empty()) {
      listed_.push_back(v);
    }
    const std::uint64_t before = user.joined++;
    if (options_.history_limit == 0 || before < options_.history_limit) {
      user.history.push_back(event);
      return;
    }
    const std::uint64_t position =
        Rng(seed_, Stream::kReservoir, before, static_cast<std::uint32_t>(v)).below(before + 1);
    if (position < options_.history_limit) {
      user.history[static_cast<std::size_t>(position)] = event;
    }
  }

  Members participants(RoundId round, std::uint32_t step_and_arm, const Members& members) const {
    Members with_history;
    for (const std::size_t v : members) {
      if (!users_[v].history.empty()) {
        with_history.push_back(v);
      }
    }
    if (options_.meta_samples == 0 || with_history.size() <= options_.meta_samples) {
      return with_history;
    }
    Members few;
    for (const std::uint64_t i :
         Rng(seed_, Stream::kMetaMembers, index(round), step_and_arm)
             .sample_without_replacement(with_history.size(),
                                         static_cast<std::size_t>(options_.meta_samples))) {
      few.push_back(with_history[static_cast<std::size_t>(i)]);
    }
    return few;
  }

  Members next_members(const Members& members, std::uint64_t step) const {
    const auto first = members.begin() + static_cast<std::ptrdiff_t>(step * options_.meta_samples);
    return {first, first + static_cast<std::ptrdiff_t>(options_.meta_samples)};
  }

  std::vector<Event> draws_of(RoundId round, std::uint32_t step_and_arm, std::size_t v) const {
    const std::vector<Event>& history = users_[v].history;
    if (options_.meta_draw == MetaDraw::kAll) {
      return history;
    }
    Rng rng = RngFamily(Rng(seed_, Stream::kMetaDraw, index(round), step_and_arm)).member(v);
    return {history[static_cast<std::size_t>(rng.below(history.size()))]};
  }

  // Single-sample steps in a new random order each epoch, until an epoch's mean loss is small.
  void train(PlainNetwork& network, const std::vector<Event>& events, std::uint64_t most_steps,
             std::uint32_t which) {
    ++trainings_;
    Rng rng(seed_, Stream::kTrainingOrder, feedbacks_, which);
    plain::PlainAdam adam(network, options_.replay.learning_rate);
    std::vector<std::size_t> order(events.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    double loss = 0.0;
    for (std::uint64_t step = 0; !events.empty() && step < most_steps; ++step) {
      const std::size_t i = static_cast<std::size_t>(step % order.size());
      loss = i == 0 ? 0.0 : loss;
      std::swap(order[i], order[i + static_cast<std::size_t>(rng.below(order.size() - i))]);
      const Event& event = events[order[i]];
      const double error = network.value(event.x.view()) - event.reward;
      loss += 0.5 * error * error;
      note(network, event.x.view(), &margin_);
      if (options_.replay.optimiser == Optimiser::kAdam) {
        adam.step(network, event.x.view(), event.reward);
      } else {
        network.sgd_step(event.x.view(), event.reward, options_.replay.learning_rate);
      }
      if (i + 1 == order.size() &&
          loss / static_cast<double>(order.size()) <= options_.replay.stop_loss) {
        return;
      }
    }
  }

  McnbOptions options_;
  std::uint64_t seed_;
  PlainNetwork start_;  // theta_0
  PlainNetwork theta_;
  std::vector<User> users_;
  Members listed_;  // the users with a history, in the order of their first event
  std::uint64_t events_ = 0;
  std::uint64_t feedbacks_ = 0;
  std::uint64_t trainings_ = 0;
  double margin_ = 1.0;  // margin of the last call that changed something
};

}  // namespace mcnb::textbook
