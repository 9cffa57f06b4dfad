#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/engine/model_source.h"
#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

// What all tasks of the engine have in common. Whoever submits a task fills in the input, and may
// read the outcome from the moment when `done` is called.
struct TaskBase {
  std::string model;                  // whose task it is; empty: of all, or of none yet
  std::string client;                 // who asks: clients have equal shares of the engine's time
  std::optional<ServiceError> error;  // why the task failed
  // Called once by the engine, on any of its threads, when the outcome is known and everything
  // that it rests on is durable. Empty from then on, so that it may hold whoever holds the task.
  std::function<void()> done;

  // Set by the engine when the task is submitted.
  double submitted = 0.0;  // uptime, in seconds
  double cost = 0.0;       // estimated seconds, by what was measured lately
  double estimate = 0.0;   // of a decision: by its model's options and learners alone
  std::size_t bytes = 0;   // that it holds while it waits
  bool large = false;      // a decision that is computed in parts
};

struct RankTask : TaskBase {
  RankRequest request;
  std::vector<RankRequest> further;  // of the other slots of the event, in their order
  Decision decision;                 // the outcome
  std::vector<Decision> further_decisions;
};

struct RewardTask : TaskBase {
  Reward reward;
  std::string slot;  // of the event; empty: it has none
  RewardOutcome outcome{};
};

struct ActivationTask : TaskBase {
  Activation activation;
};

// Any other use of the models.
struct ControlTask : TaskBase {
  // True for work that changes no model. Other work waits while a decision of `model` is computed
  // in parts, of any model if it is empty.
  bool only_reads = false;
  // What `work` takes beside the models: scores of so many actions, other computing, and what it
  // holds while it waits. Clients have their shares by that.
  std::size_t actions = 0;
  double seconds = 0.0;
  std::size_t held_bytes = 0;
  // Runs on the thread that owns the models.
  std::function<void(ModelHost& host, Storage& storage, std::int64_t time)> work;
  // `work` may set these two. Both are done by the housekeeping, in this order, after the commit
  // and before `done`.
  std::vector<SnapshotJob> snapshots;
  std::function<void(Storage& storage)> follow_up;
  // Or this one, which reads the storage for people: the housekeeping does it when it has nothing
  // else to do (Housekeeping::look_up).
  std::function<void(Storage& storage)> look_up;
};

// A new model, called `model`, or a challenger of that model. It is made away from the thread that
// owns the models, which may take seconds.
struct CreateTask : TaskBase {
  ModelOptions options;
  std::optional<NewChallenger> challenger;
  std::optional<ModelSource> source;   // where the model begins; without one it has learned nothing
  std::int64_t time = 0;               // set by the engine, as what follows
  std::unique_ptr<Model> made;         // between the stages of the engine
  std::optional<Start> start;          // which `made` has applied
  std::optional<ServiceError> failed;  // why it could not be made
  ModelReport report;                  // the outcome
};

using Task = std::variant<std::shared_ptr<RankTask>, std::shared_ptr<RewardTask>,
                          std::shared_ptr<ActivationTask>, std::shared_ptr<ControlTask>,
                          std::shared_ptr<CreateTask>>;

inline TaskBase& base_of(const Task& task) {
  return std::visit([](const auto& own) -> TaskBase& { return *own; }, task);
}

// Sets the error of every task that has none.
void fail_tasks(const std::vector<Task>& tasks, const ServiceError& error);
// Tells whoever waits for these tasks that they are done.
void answer_tasks(const std::vector<Task>& tasks);

}  // namespace mcnb
