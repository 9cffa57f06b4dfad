// Which tasks are computed next, and which wait.

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "mcnb/serve/engine/engine_core.h"

namespace mcnb {
namespace {

constexpr std::size_t kTasksAtOnce = 512;
// Estimated seconds. A batch is short enough that whoever comes next need not wait long, and long
// enough that decisions share their pass over the learners, and events their commit.
constexpr double kBatchSeconds = 0.02;
constexpr double kLoneBatchSeconds = 0.06;  // while one client alone has work
constexpr double kMostPartSeconds = 0.01;   // of a large decision
// A large decision that takes so many times `decision_seconds` is given up, because it holds up
// what would change its model.
constexpr double kLargePatience = 3.0;
constexpr double kMostSlotsSeconds = 1.0;  // for the decisions of all slots of an event
constexpr double kTaskSeconds = 20e-6;     // of any task, beside its model's work
constexpr double kReportSeconds = 15e-6;   // of a task for all models, for each of them

std::size_t bytes_of(const RankRequest& request) {
  std::size_t bytes = request.features.size() * sizeof(float);
  if (request.kept) {
    bytes += request.kept->context.size() + request.kept->slot.size();
    for (const std::string& features : request.kept->actions) {
      bytes += sizeof features + features.size();
    }
  }
  for (const std::string& action : request.actions) {
    bytes += sizeof action + action.size();
  }
  return bytes;
}

}  // namespace

// How long the task will take, and what it holds while it waits.
void EngineCore::estimate(TaskBase& task, const Task& own) const {
  const std::lock_guard lock(reports_mutex_);
  const auto found = prices_.find(task.model);
  const Price price = found == prices_.end() ? Price{} : found->second;
  task.submitted = clock_.uptime();
  task.cost = kTaskSeconds;
  task.bytes = 1000;
  if (const auto* rank = std::get_if<std::shared_ptr<RankTask>>(&own)) {
    const std::size_t slots = 1 + (*rank)->further.size();
    const std::size_t actions = slots * (*rank)->request.actions.size();
    task.cost += static_cast<double>(actions) * price.seconds_per_action;
    task.estimate = static_cast<double>(actions) * price.estimate_per_action;
    task.bytes += slots * bytes_of((*rank)->request);
    task.large = task.cost > options_.large_seconds && price.arms_apart > 0 &&
                 actions > price.arms_apart && slots == 1;
  } else if (std::holds_alternative<std::shared_ptr<RewardTask>>(own)) {
    task.cost += price.seconds_per_action;
  } else if (const auto* control = std::get_if<std::shared_ptr<ControlTask>>(&own)) {
    task.cost +=
        (*control)->seconds + static_cast<double>((*control)->actions) * price.seconds_per_action;
    task.cost += task.model.empty() ? static_cast<double>(prices_.size()) * kReportSeconds : 0.0;
    task.bytes += (*control)->held_bytes;
  }
}

// Slots are decided in one go, so that others wait for all of them.
std::optional<ServiceError> EngineCore::too_costly(const TaskBase& base, const Task& task) const {
  const auto* const rank = std::get_if<std::shared_ptr<RankTask>>(&task);
  const bool slots = rank != nullptr && !(*rank)->further.empty();
  const double most =
      slots ? std::min(options_.decision_seconds, kMostSlotsSeconds) : options_.decision_seconds;
  if (base.estimate <= most) {
    return std::nullopt;
  }
  return ServiceError{
      ErrorCode::kTooCostly,
      fmt::format("the decision would take an estimated {:.1f} s, expected at most {:.1f} s ({}): "
                  "send fewer actions",
                  base.estimate, most, slots ? "for all slots together" : "decision_seconds"),
      "actions"};
}

bool EngineCore::submit(const Task& task) {
  TaskBase& base = base_of(task);
  estimate(base, task);
  if (base.error = too_costly(base, task); base.error) {
    return false;
  }
  metrics_.queued.fetch_add(1);
  std::optional<Task> displaced;
  const bool taken = tasks_.try_push(Task(task), displaced);
  const ServiceError too_many{ErrorCode::kOverloaded, "too many requests wait", ""};
  if (displaced) {
    metrics_.queued.fetch_sub(1);
    metrics_.queue_full.fetch_add(1);
    fail_tasks({*displaced}, too_many);
    answer_tasks({*displaced});
  }
  if (!taken) {
    metrics_.queued.fetch_sub(1);
    metrics_.queue_full.fetch_add(1);
    base.error = too_many;
  }
  return taken;
}

// Small tasks to be run now, those that were held back first.
std::vector<Task> EngineCore::take_tasks(Wait wait) {
  std::vector<Task> tasks;
  if (large_) {
    refuse_late(held_);
  } else {
    tasks = std::exchange(held_, {});
  }
  const bool busy = large_ || !tasks.empty();
  std::vector<Task> fresh = tasks_.take(kBatchSeconds, large_ ? kBatchSeconds : kLoneBatchSeconds,
                                        kTasksAtOnce, busy ? Wait(0) : wait);
  metrics_.queued.fetch_sub(static_cast<std::int64_t>(fresh.size()));
  std::ranges::move(fresh, std::back_inserter(tasks));
  host_.set_other_memory(static_cast<double>(tasks_.bytes() + held_bytes()));
  refuse_late(tasks);
  if (large_) {
    const auto waiting = std::stable_partition(
        tasks.begin(), tasks.end(), [this](const Task& task) { return !must_wait(task); });
    std::move(waiting, tasks.end(), std::back_inserter(held_));
    tasks.erase(waiting, tasks.end());
    bound_held();
  }
  batch_cost_ = 0.0;
  for (const Task& task : tasks) {
    batch_cost_ += base_of(task).cost;
  }
  return tasks;
}

std::size_t EngineCore::held_bytes() const {
  std::size_t bytes = 0;
  for (const Task& task : held_) {
    bytes += base_of(task).bytes;
  }
  return bytes;
}

// What is held back is bounded as the queue is: beyond that, the latest tasks of the client that
// has the most are refused.
void EngineCore::bound_held() {
  std::size_t bytes = held_bytes();
  std::map<std::string, std::size_t> counts;
  for (const Task& task : held_) {
    ++counts[base_of(task).client];
  }
  std::vector<Task> refused;
  while (held_.size() > options_.queue_limit || bytes > kMostQueueBytes) {
    const auto most =
        std::ranges::max_element(counts, {}, &std::pair<const std::string, std::size_t>::second);
    --most->second;
    const auto last = std::ranges::find_if(held_.rbegin(), held_.rend(), [&](const Task& task) {
      return base_of(task).client == most->first;
    });
    bytes -= base_of(*last).bytes;
    refused.push_back(std::move(*last));
    held_.erase(std::next(last).base());
  }
  metrics_.queue_full.fetch_add(refused.size());
  fail_tasks(refused, {ErrorCode::kOverloaded, "too many requests wait", ""});
  answer_tasks(refused);
}

// Answers those that have waited too long: whoever sent them may have given up.
void EngineCore::refuse_late(std::vector<Task>& tasks) {
  const double latest = clock_.uptime() - options_.wait_seconds;
  const auto late = std::stable_partition(tasks.begin(), tasks.end(), [&](const Task& task) {
    return base_of(task).submitted >= latest;
  });
  const std::vector<Task> refused(std::make_move_iterator(late),
                                  std::make_move_iterator(tasks.end()));
  tasks.erase(late, tasks.end());
  metrics_.waited_too_long.fetch_add(refused.size());
  fail_tasks(refused, {ErrorCode::kOverloaded, "the request has waited too long", ""});
  answer_tasks(refused);
}

// Whether a task would change the model of the large decision.
bool EngineCore::must_wait(const Task& task) {
  const std::string& model = base_of(task).model;
  if (const auto* rank = std::get_if<std::shared_ptr<RankTask>>(&task)) {
    return !host_.can_decide(model, (*rank)->request.user_id);
  }
  if (const auto* control = std::get_if<std::shared_ptr<ControlTask>>(&task)) {
    return !(*control)->only_reads && (model.empty() || host_.is_busy(model));
  }
  return host_.is_busy(model) && !std::holds_alternative<std::shared_ptr<CreateTask>>(task);
}

// False once the core is closed and nothing is left to compute.
bool EngineCore::has_more() const { return !tasks_.finished() || large_ || !held_.empty(); }

// Begins a large decision if none is under way, and computes a part of it.
void EngineCore::run_large(ComputedBatch& computed, std::int64_t time) {
  if (host_.broken()) {
    return;
  }
  std::optional<ModelHost::Decided> decided;
  if (!large_) {
    std::optional<Task> next = tasks_.take_large();
    if (!next) {
      return;
    }
    metrics_.queued.fetch_sub(1);
    std::vector<Task> one{*next};
    refuse_late(one);
    if (one.empty()) {
      return;
    }
    large_ = std::get<std::shared_ptr<RankTask>>(*next);
    large_->submitted = clock_.uptime();
    metrics_.large_decisions.fetch_add(1);
    decided = host_.begin_large(large_->model, large_->request, time);
  }
  if (!decided &&
      clock_.uptime() - large_->submitted > kLargePatience * options_.decision_seconds) {
    host_.drop_large();
    decided = ModelHost::Decided{
        std::nullopt, ServiceError{ErrorCode::kOverloaded, "the decision takes too long now"}};
  }
  if (!decided) {
    const double seconds = std::clamp(batch_cost_, options_.least_part_seconds, kMostPartSeconds);
    decided = host_.advance_large(seconds, time, [this] { return clock_.processor_seconds(); });
  }
  if (decided) {
    large_->error = std::move(decided->error);
    if (decided->decision) {
      large_->decision = std::move(*decided->decision);
    }
    computed.tasks.emplace_back(std::exchange(large_, nullptr));
  }
}

void EngineCore::end_large(const ServiceError& error) {
  host_.drop_large();
  if (large_) {
    const std::vector<Task> ended{std::exchange(large_, nullptr)};
    fail_tasks(ended, error);
    answer_tasks(ended);
  }
}

// A plan for a model is made at once; the task ends when the model is.
void EngineCore::run_one(CreateTask& task, std::int64_t) {
  if (task.failed) {
    throw RequestRefused(*task.failed);
  }
  task.report = host_.report(task.model);
}

void EngineCore::plan(CreateTask& task, std::int64_t time) {
  task.time = time;
  if (task.challenger) {
    task.challenger = host_.plan_challenger(task.model, std::move(*task.challenger));
  } else if (task.source) {
    task.options = host_.plan_from(task.model, *task.source);
  } else {
    task.options = host_.plan(task.model, task.options);
  }
}

// Takes in what was made, or gives it up.
void EngineCore::adopt(CreateTask& task, std::int64_t time) {
  if (task.challenger) {
    host_.adopt_challenger(task.model, std::move(*task.challenger), time);
  } else {
    host_.adopt(task.model, std::move(task.made), task.start ? &*task.start : nullptr);
  }
}

// Sends those on their way that ask for a new model or challenger, and takes in what was made.
void EngineCore::take_in_models(std::vector<Task>& tasks, std::int64_t time) {
  std::vector<Task> others;
  std::vector<Task> refused;
  for (Task& task : tasks) {
    auto* const create = std::get_if<std::shared_ptr<CreateTask>>(&task);
    if (create == nullptr) {
      others.push_back(std::move(task));
      continue;
    }
    try {
      plan(**create, time);
      if (builder_.start(*create)) {
        building_.push_back(*create);
        continue;
      }
      adopt(**create, time);
      (*create)->error = ServiceError{ErrorCode::kOverloaded, "too many models are being made"};
    } catch (const RequestRefused& error) {
      (*create)->error = error.error();
    }
    refused.push_back(std::move(task));
  }
  // They come before tasks that may remove them. A challenger waits while its model must not
  // change.
  tasks.clear();
  std::ranges::move(builder_.take_finished(), std::back_inserter(made_));
  for (std::shared_ptr<CreateTask>& made : std::exchange(made_, {})) {
    if (made->challenger && host_.is_busy(made->model)) {
      made_.push_back(std::move(made));
      continue;
    }
    std::erase(building_, made);
    try {
      adopt(*made, time);
    } catch (const RequestRefused& error) {
      made->failed = error.error();
    } catch (const std::exception& error) {
      made->failed = ServiceError{ErrorCode::kStorageFailed, error.what()};
    }
    tasks.emplace_back(std::move(made));
  }
  std::ranges::move(others, std::back_inserter(tasks));
  answer_tasks(refused);
}

}  // namespace mcnb
