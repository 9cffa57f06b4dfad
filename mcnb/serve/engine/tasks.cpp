#include "mcnb/serve/engine/tasks.h"

#include <utility>

namespace mcnb {

void fail_tasks(const std::vector<Task>& tasks, const ServiceError& error) {
  for (const Task& task : tasks) {
    TaskBase& base = base_of(task);
    if (!base.error) {
      base.error = error;
    }
  }
}

void answer_tasks(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    if (const std::function<void()> done = std::exchange(base_of(task).done, {})) {
      done();
    }
  }
}

}  // namespace mcnb
