#include "mcnb/serve/engine/model_builder.h"

#include <fmt/core.h>

#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kModelsWaiting = 64;

}  // namespace

ModelBuilder::ModelBuilder(ThreadPool& threads) : threads_(threads), waiting_(kModelsWaiting) {}

bool ModelBuilder::start(std::shared_ptr<CreateTask> task) {
  return waiting_.try_push(std::move(task));
}

void ModelBuilder::finish(std::shared_ptr<CreateTask> task) {
  const std::lock_guard lock(mutex_);
  finished_.push_back(std::move(task));
}

std::vector<std::shared_ptr<CreateTask>> ModelBuilder::take_finished() {
  const std::lock_guard lock(mutex_);
  return std::exchange(finished_, {});
}

void ModelBuilder::close() {
  waiting_.close();
  while (waiting_.pop(Wait(0))) {
  }
}

bool ModelBuilder::run(Wait wait) {
  std::optional<std::shared_ptr<CreateTask>> task = waiting_.pop(wait);
  if (!task) {
    return !waiting_.finished();
  }
  CreateTask& own = **task;
  try {
    if (own.challenger) {
      own.challenger->made =
          Model::make_challenger(own.challenger->model, own.challenger->options, threads_);
    } else if (own.source) {
      StartedModel started = start_model(*own.source, own.options, own.time, threads_);
      own.made = std::move(started.model);
      own.start = std::move(started.start);
    } else {
      own.made = std::make_unique<Model>(own.options, threads_);
    }
  } catch (const Error& error) {
    own.failed = ServiceError{ErrorCode::kBadOption, error.what()};
  } catch (const std::exception& error) {
    own.failed =
        ServiceError{ErrorCode::kMemoryFull, fmt::format("it cannot be made: {}", error.what())};
  }
  finish(std::move(*task));
  return true;
}

}  // namespace mcnb
