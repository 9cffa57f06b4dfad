#include "mcnb/serve/engine/fair_queue.h"

#include <algorithm>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// Small enough that a batch has tasks of several clients, large enough for a few tasks in a turn.
constexpr double kQuantum = 0.002;
constexpr double kLargeQuantum = 0.1;

}  // namespace

std::size_t FairLines::size_of(const std::string& client) const {
  const auto found = by_client_.find(client);
  return found == by_client_.end() ? 0 : found->second->tasks.size();
}

void FairLines::push(Task task) {
  const std::string& client = base_of(task).client;
  auto found = by_client_.find(client);
  if (found == by_client_.end()) {
    lines_.push_back({client, {}, 0.0});
    found = by_client_.emplace(client, std::prev(lines_.end())).first;
  }
  found->second->tasks.push_back(std::move(task));
  ++size_;
}

void FairLines::remove(Lines::iterator line) {
  has_turn_ = has_turn_ && line != lines_.begin();
  by_client_.erase(line->client);
  lines_.erase(line);
}

std::optional<Task> FairLines::pop() {
  if (lines_.empty()) {
    return std::nullopt;
  }
  for (;;) {
    Line& line = lines_.front();
    if (!has_turn_) {
      line.credit += quantum_;
      has_turn_ = true;
    }
    const double cost = base_of(line.tasks.front()).cost;
    // Alone, a client need not save up.
    if (cost <= line.credit || lines_.size() == 1) {
      line.credit = std::max(0.0, line.credit - cost);
      Task task = std::move(line.tasks.front());
      line.tasks.pop_front();
      --size_;
      if (line.tasks.empty()) {
        remove(lines_.begin());
      }
      return task;
    }
    lines_.splice(lines_.end(), lines_, lines_.begin());
    has_turn_ = false;
  }
}

const std::string& FairLines::longest() const {
  check(!lines_.empty(), "somebody waits");
  return std::ranges::max_element(lines_, {}, [](const Line& line) { return line.tasks.size(); })
      ->client;
}

Task FairLines::pop_last(const std::string& client) {
  const Lines::iterator line = by_client_.at(client);
  Task task = std::move(line->tasks.back());
  line->tasks.pop_back();
  --size_;
  if (line->tasks.empty()) {
    remove(line);
  }
  return task;
}

FairQueue::FairQueue(const Limits& limits)
    : limits_(limits), small_(kQuantum), large_(kLargeQuantum) {}

bool FairQueue::has_room(const TaskBase& task) const {
  return small_.size() + large_.size() < limits_.tasks && bytes_ + task.bytes <= limits_.bytes;
}

// Takes out the last task of the longest line if that is longer than the task's own.
std::optional<Task> FairQueue::make_room(const TaskBase& task) {
  FairLines& lines = large_.size() > small_.size() ? large_ : small_;
  if (lines.empty() || lines.size_of(lines.longest()) <= lines.size_of(task.client) + 1) {
    return std::nullopt;
  }
  Task last = lines.pop_last(std::string(lines.longest()));
  count_out(base_of(last));
  return last;
}

bool FairQueue::try_push(Task&& task, std::optional<Task>& displaced) {
  const TaskBase& base = base_of(task);
  {
    const std::lock_guard lock(mutex_);
    const auto own = seconds_.find(base.client);
    const double waiting = own == seconds_.end() ? 0.0 : own->second;
    if (closed_ || (waiting > 0.0 && waiting + base.cost > limits_.client_seconds)) {
      return false;
    }
    if (!has_room(base)) {
      displaced = make_room(base);
      if (!has_room(base)) {
        return false;
      }
    }
    seconds_[base.client] += base.cost;
    bytes_ += base.bytes;
    (base.large ? large_ : small_).push(std::move(task));
  }
  added_.notify_one();
  return true;
}

void FairQueue::count_out(const TaskBase& task) {
  bytes_ -= task.bytes;
  const auto own = seconds_.find(task.client);
  own->second -= task.cost;
  if (small_.size_of(task.client) + large_.size_of(task.client) == 0) {
    seconds_.erase(own);
  }
}

std::vector<Task> FairQueue::take(double seconds, double alone, std::size_t most, Wait wait) {
  std::unique_lock lock(mutex_);
  added_.wait_for(lock, wait, [this] { return closed_ || !small_.empty() || !large_.empty(); });
  const double enough = small_.clients() > 1 || !large_.empty() ? seconds : alone;
  std::vector<Task> tasks;
  double cost = 0.0;
  while (!small_.empty() && tasks.size() < most && (tasks.empty() || cost < enough)) {
    tasks.push_back(*small_.pop());
    cost += base_of(tasks.back()).cost;
    count_out(base_of(tasks.back()));
  }
  return tasks;
}

std::optional<Task> FairQueue::take_large() {
  const std::lock_guard lock(mutex_);
  std::optional<Task> task = large_.pop();
  if (task) {
    count_out(base_of(*task));
  }
  return task;
}

std::size_t FairQueue::size() const {
  const std::lock_guard lock(mutex_);
  return small_.size() + large_.size();
}

std::size_t FairQueue::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void FairQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  added_.notify_all();
}

bool FairQueue::finished() const {
  const std::lock_guard lock(mutex_);
  return closed_ && small_.empty() && large_.empty();
}

}  // namespace mcnb
