#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

// What all tasks of the engine have in common. Whoever submits a task fills in the input, and may
// read the outcome from the moment when `done` is called.
struct TaskBase {
  std::string model;
  std::optional<ServiceError> error;  // why the task failed
  // Called once by the engine, on any of its threads, when the outcome is known and everything
  // that it rests on is durable.
  std::function<void()> done;
};

struct RankTask : TaskBase {
  RankRequest request;
  Decision decision;  // the outcome
};

struct RewardTask : TaskBase {
  Reward reward;
  RewardOutcome outcome{};
};

struct ActivationTask : TaskBase {
  Activation activation;
};

// Any other use of the models.
struct ControlTask : TaskBase {
  // Runs on the thread that owns the models.
  std::function<void(ModelHost& host, Storage& storage, std::int64_t time)> work;
  // `work` may set these two. Both are done by the housekeeping, in this order, after the commit
  // and before `done`.
  std::vector<SnapshotJob> snapshots;
  std::function<void(Storage& storage)> follow_up;
};

using Task = std::variant<std::shared_ptr<RankTask>, std::shared_ptr<RewardTask>,
                          std::shared_ptr<ActivationTask>, std::shared_ptr<ControlTask>>;

inline TaskBase& base_of(const Task& task) {
  return std::visit([](const auto& own) -> TaskBase& { return *own; }, task);
}

// Sets the error of every task that has none.
void fail_tasks(const std::vector<Task>& tasks, const ServiceError& error);
// Tells whoever waits for these tasks that they are done.
void answer_tasks(const std::vector<Task>& tasks);

}  // namespace mcnb
