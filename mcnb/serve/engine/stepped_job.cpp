#include "mcnb/serve/engine/stepped_job.h"

#include <utility>

namespace mcnb {

SteppedJob::SteppedJob(Engine& engine, std::string model, std::string client)
    : engine_(engine), model_(std::move(model)), client_(std::move(client)) {}

bool SteppedJob::start(std::function<void()> done) {
  done_ = std::move(done);
  return submit();
}

bool SteppedJob::submit() {
  auto task = std::make_shared<ControlTask>();
  task->model = model_;
  task->client = client_;
  task->only_reads = true;
  task->seconds = kStepSeconds;
  task->work = [own = task.get(), this](ModelHost& host, Storage&, std::int64_t time) {
    step(*own, host, time);
  };
  // The task holds the job until the next one does.
  task->done = [self = shared_from_this(), own = task.get()] {
    self->error_ = own->error;
    if (self->error_ || self->finished_ || !self->submit()) {
      std::exchange(self->done_, {})();
    }
  };
  const bool taken = engine_.submit(task);
  if (!taken) {
    error_ = task->error;
    task->done = {};
  }
  return taken;
}

void SteppedJob::finish(std::string text) {
  text_ = std::move(text);
  finished_ = true;
}

std::string SteppedJob::text() const {
  if (error_) {
    throw RequestRefused(*error_);
  }
  return text_;
}

}  // namespace mcnb
