#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/engine/bounded_queue.h"
#include "mcnb/serve/engine/tasks.h"

namespace mcnb {

// Makes new models and challengers away from the thread that owns the models. One thread starts
// tasks and takes those that are finished, one calls `run`; both can be the same.
class ModelBuilder {
 public:
  using Wait = std::chrono::milliseconds;

  // Borrows the threads of the models.
  explicit ModelBuilder(ThreadPool& threads);

  // Returns false, and takes nothing, if too many wait.
  bool start(std::shared_ptr<CreateTask> task);
  // Tasks whose model or challenger is made, or which say why it is not.
  std::vector<std::shared_ptr<CreateTask>> take_finished();
  // No more tasks will come, and nobody waits for those under way. Drops those not begun.
  void close();

  // Waits at most so long for a task, and makes its model. Returns false when the builder is closed
  // and has nothing to do.
  bool run(Wait wait);

 private:
  void finish(std::shared_ptr<CreateTask> task);

  ThreadPool& threads_;
  BoundedQueue<std::shared_ptr<CreateTask>> waiting_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<CreateTask>> finished_;
};

}  // namespace mcnb
