#pragma once

// The engine in one thread: requests in an order that a seed decides, on a disk that fails and with
// crashes in between.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/serve/model/event_keys.h"
#include "tests/serve/engine/stepped_engine.h"

namespace mcnb::simulation {

using namespace cases;

inline ModelOptions waiting_model() {
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  return options;
}

// It fits its rewards often.
inline ModelOptions fitting_model() {
  ModelOptions options = waiting_model();
  options.policy = parse_policy("hierarchical:first_fit=3:fit_growth=1.01:half_life=80");
  return options;
}

// Every fifth event is one of the model that fits.
inline std::string model_of(std::uint64_t event) { return event % 5 == 4 ? "second" : "m"; }

struct Plan {
  std::uint64_t seed = 0;
  std::size_t rounds = 0;
  bool failures = false;  // of the disk, and crashes
  bool erasing = false;   // users are forgotten, the log is trimmed, a model is deleted
  double trouble = 1.0;   // how much more often than usual something fails
};

inline EngineOptions options_of(const Plan& plan) {
  EngineOptions options = stepped_options();
  // Decisions among many actions are computed in parts, of which each call has one.
  options.large_seconds = 30e-6;
  options.least_part_seconds = 4e-6;
  if (plan.seed % 16 == 0) {
    options.most_copied = 0;  // child processes send the snapshots
  }
  if (plan.erasing) {
    options.log_bytes = 150'000;
  }
  return options;
}

// Draws what happens next, and remembers what the engine has acknowledged.
class Simulation {
 public:
  explicit Simulation(const Plan& plan)
      : plan_(plan), rng_(plan.seed, Stream::kTest), engine_(options_of(plan)) {
    create("m", waiting_model());
    create("second", fitting_model());
  }

  void run() {
    for (std::size_t round = 0; round < plan_.rounds; ++round) {
      engine_.clock.advance(static_cast<std::int64_t>(rng_.below(200)));
      if (plan_.failures) {
        disturb();
      }
      submit_something();
      for (std::uint64_t stages = rng_.below(5); stages > 0; --stages) {
        run_stage();
      }
    }
    settle();
  }

  // Everything that was answered, in order, and the states at the end.
  std::vector<std::string> transcript;
  // Acknowledged decisions, as bytes, by the number of their event.
  std::map<std::uint64_t, std::string> decisions;
  std::uint64_t learned_surely = 0;   // rewards that were acknowledged as learned
  std::uint64_t learned_perhaps = 0;  // rewards that wait, or whose outcome the client cannot know
  std::size_t restarts = 0;
  std::size_t refused = 0;
  std::size_t large = 0;  // acknowledged decisions that were computed in parts

  SteppedEngine& engine() { return engine_; }

 private:
  void create(const std::string& name, const ModelOptions& options) {
    const auto task = engine_.run(control_task(
        [&](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, options); }));
    ASSERT_FALSE(task->error.has_value()) << task->error->message;
  }

  void run_stage() {
    const EngineCore::Wait at_once(0);
    switch (rng_.below(6)) {
      case 0:
        engine_.core().compute(at_once);
        break;
      case 1:
        engine_.core().write(at_once);
        break;
      case 2:
        engine_.core().fit(at_once);
        break;
      case 3:
        engine_.core().acknowledge(at_once);
        break;
      case 4:
        engine_.core().build(at_once);
        break;
      default:
        engine_.core().housekeep(at_once);
    }
  }

  void disturb() {
    if (rng_.chance(0.02 * plan_.trouble)) {
      engine_.disk().set_commit_failure(rng_.chance(0.5) ? CommitFailure::kBeforeStoring
                                                         : CommitFailure::kAfterStoring);
      engine_.disk().fail_call(1 + rng_.below(30));
    }
    if (rng_.chance(0.005)) {
      engine_.disk().fail_always(StorageCall::kCommit);
      engine_.disk().fail_always(StorageCall::kProbe);
    }
    if (rng_.chance(0.03)) {
      engine_.disk().heal();
    }
    if (rng_.chance(0.003 * plan_.trouble)) {
      crash();
    }
  }

  void crash() {
    engine_.crash();
    for (const auto& reward : rewards_under_way_) {
      learned_perhaps += reward.second;
    }
    rewards_under_way_.clear();
    engine_.disk().heal();
    engine_.start();
    ++restarts;
    transcript.emplace_back("crash");
  }

  void submit_something() {
    const std::uint64_t kind = rng_.below(plan_.erasing ? 110 : 102);
    if (kind < 50 || events_ == 0) {
      submit_rank(events_++);
    } else if (kind < 55) {
      submit_rank(rng_.below(events_));  // again
    } else if (kind < 95) {
      submit_reward(rng_.chance(0.8)
                        ? events_ - 1 - rng_.below(std::min<std::uint64_t>(events_, 50))
                        : rng_.below(events_));
    } else if (kind < 98) {
      submit(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
               task.snapshots.push_back(host.snapshot("m"));
             }),
             "snapshot");
    } else if (kind < 100) {
      submit_activation(rng_.below(events_));
    } else if (kind < 102) {
      submit_challenge();
    } else if (kind == 102) {
      const std::string user = "user-" + std::to_string(rng_.below(7));
      const std::string model = rng_.chance(0.5) ? "m" : "second";
      submit(control_task([user, model](ControlTask& task, ModelHost& host, std::int64_t time) {
               erase_afterwards(task, host.forget(model, user, time));
             }),
             "forget " + user);
    } else if (kind == 103) {
      submit(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
               remove(task, host, "second");
               host.create("second", fitting_model());
             }),
             "make second anew");
    } else if (kind == 104) {
      auto task = std::make_shared<CreateTask>();
      task->model = "third";
      task->options = small_model();
      submit(task, "make third beside the requests");
    } else if (kind == 105) {
      submit(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
               remove(task, host, "third");
             }),
             "remove third");
    } else {
      submit_look_up();
    }
  }

  // What people look up changes nothing, whatever happens meanwhile.
  void submit_look_up() {
    const std::string model = rng_.chance(0.5) ? "m" : "second";
    const std::string user = "user-" + std::to_string(rng_.below(7));
    auto found = std::make_shared<std::size_t>(0);
    const auto task =
        control_task([model, user, found](ControlTask& own, ModelHost& host, std::int64_t) {
          own.look_up = [view = host.log_view(model, user), found](Storage& storage) {
            *found = latest_events(storage.log(), view, 10, 100).size();
          };
        });
    task->model = model;
    task->only_reads = true;
    submit(task, "look at the events of " + user,
           [this, found] { transcript.back() += " " + std::to_string(*found); });
  }

  // A challenger begins, ends or is promoted. Some of these requests are refused.
  void submit_challenge() {
    const std::string model = rng_.chance(0.5) ? "m" : "second";
    const std::string name = "challenger-" + std::to_string(rng_.below(2));
    const std::uint64_t kind = rng_.below(5);
    if (kind < 3) {
      auto task = std::make_shared<CreateTask>();
      task->model = model;
      task->challenger.emplace();
      task->challenger->name = name;
      task->challenger->options.policy =
          parse_policy(rng_.chance(0.8) ? "linucb" : "hierarchical:first_fit=3:fit_growth=1.01");
      submit(task, "challenge " + model + " by " + name);
    } else if (kind == 3) {
      submit(control_task([model, name](ControlTask&, ModelHost& host, std::int64_t time) {
               host.remove_challenger(model, name, time);
             }),
             "end " + name + " of " + model);
    } else {
      const std::string keep_as = rng_.chance(0.8) ? name : "";
      submit(control_task([model, name, keep_as](ControlTask&, ModelHost& host, std::int64_t time) {
               host.promote(model, name, keep_as, time);
             }),
             "promote " + name + " of " + model);
    }
  }

  static void remove(ControlTask& task, ModelHost& host, const std::string& model) {
    const std::uint32_t id = host.report(model).id;
    host.remove(model);
    task.follow_up = [id](Storage& storage) { storage.erase_model(id); };
  }

  void submit_rank(std::uint64_t event) {
    RankRequest request = request_of(event, "user-" + std::to_string(event % 7));
    request.deferred = event % 11 == 0;
    if (event % 13 == 5) {
      add_actions(request, 60);
    }
    const auto task = rank_task(request, model_of(event));
    if (event % 9 == 4) {  // two slots
      task->request.slot.ids = {"top", "side"};
      task->further.push_back(task->request);
      task->further[0].slot.index = 1;
      task->further[0].event_id = slot_event_id(request.event_id, "side", false);
    }
    submit(task, "rank " + std::to_string(event), [this, event, own = task.get()] {
      for (const Decision& side : own->further_decisions) {
        const auto known = sides_.emplace(event, encode_event(side)).first;
        EXPECT_TRUE(plan_.erasing || known->second == encode_event(side)) << event;
        EXPECT_NE(side.actions[side.chosen].id, own->decision.actions[own->decision.chosen].id);
      }
      large += own->large ? 1 : 0;
      const std::string bytes = encode_event(own->decision);
      transcript.back() += " " + own->decision.actions[own->decision.chosen].id;
      const auto known = decisions.emplace(event, bytes).first;
      EXPECT_TRUE(plan_.erasing || known->second == bytes) << event << " was decided twice";
    });
  }

  void submit_activation(std::uint64_t event) {
    auto task = std::make_shared<ActivationTask>();
    task->model = "m";
    task->activation.event_id = request_of(event, "").event_id;
    submit(task, "activate " + std::to_string(event), [this, event] {
      if (rewarded_early_.erase(event) > 0) {  // the reward that waited is learned now
        --learned_perhaps;
        ++learned_surely;
      }
    });
  }

  void submit_reward(std::uint64_t event) {
    const auto task =
        reward_task(request_of(event, "").event_id, event % 2 == 0 ? 1.0F : 0.0F, model_of(event));
    const bool counted = model_of(event) == "m";  // which is never deleted
    rewards_under_way_[task.get()] = counted ? 1 : 0;
    const auto forget_it = [this, own = task.get()] {
      const std::uint64_t count = rewards_under_way_.at(own);
      rewards_under_way_.erase(own);
      return count;
    };
    submit(
        task, "reward " + std::to_string(event),
        [this, event, forget_it, own = task.get()] {
          const std::uint64_t count = forget_it();
          transcript.back() += " " + std::to_string(static_cast<int>(own->outcome));
          learned_surely += own->outcome == RewardOutcome::kLearned ? count : 0;
          if (own->outcome == RewardOutcome::kWaiting && count > 0) {
            learned_perhaps += rewarded_early_.insert(event).second ? 1 : 0;
          }
        },
        [this, forget_it](const ServiceError& error) {
          const std::uint64_t count = forget_it();
          learned_perhaps += error.status() >= 500 ? count : 0;
        });
  }

  // `on_success` and `on_failure` are called when the task is answered.
  void submit(const Task& task, std::string name, std::function<void()> on_success = {},
              std::function<void(const ServiceError&)> on_failure = {}) {
    auto answered = std::make_shared<bool>(false);
    base_of(task).done = [this, base = &base_of(task), name = std::move(name), answered, on_success,
                          on_failure] {
      EXPECT_FALSE(*answered) << name << " was answered twice";
      *answered = true;
      const std::optional<ServiceError>& error = base->error;
      transcript.push_back(name + (error ? ": " + error->message : ""));
      if (!error && on_success) {
        on_success();
      } else if (error && on_failure) {
        on_failure(*error);
      }
      refused += error && error->status() == 503 ? 1 : 0;
    };
    base_of(task).client = "client-" + std::to_string(rng_.below(3));
    ASSERT_TRUE(engine_.core().submit(task));
    // Nothing waits forever: the queue stays short.
    for (int i = 0; rng_.chance(0.1) && i < 3; ++i) {
      engine_.core().step();
    }
  }

  // The disk works again, and everything that waits is answered.
  void settle() {
    engine_.disk().heal();
    for (int i = 0; i < 100; ++i) {
      engine_.clock.advance(100);
      engine_.core().step();
    }
    EXPECT_TRUE(engine_.core().ready());
    EXPECT_TRUE(rewards_under_way_.empty());
    for (const auto& [name, digest] : engine_.digests()) {
      transcript.push_back(name + " " + std::to_string(digest));
    }
  }

  Plan plan_;
  Rng rng_;
  SteppedEngine engine_;
  std::uint64_t events_ = 0;
  std::map<const RewardTask*, std::uint64_t> rewards_under_way_;
  std::map<std::uint64_t, std::string> sides_;  // of events with slots: the second decision
  std::set<std::uint64_t> rewarded_early_;      // events that wait for their activation
};

}  // namespace mcnb::simulation
