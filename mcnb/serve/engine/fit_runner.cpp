#include "mcnb/serve/engine/fit_runner.h"

#include <exception>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {

bool FitRunner::idle() const {
  const std::lock_guard lock(mutex_);
  return current_ == nullptr;
}

void FitRunner::start(std::shared_ptr<BackgroundFit> fit) {
  {
    const std::lock_guard lock(mutex_);
    check(current_ == nullptr, "one fit at a time");
    current_ = std::move(fit);
    waiting_ = true;
  }
  started_.notify_one();
}

std::optional<FitRunner::Finished> FitRunner::take_finished() {
  const std::lock_guard lock(mutex_);
  if (finished_) {
    current_.reset();
  }
  return std::exchange(finished_, std::nullopt);
}

void FitRunner::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  started_.notify_one();
}

bool FitRunner::run(Wait wait) {
  std::unique_lock lock(mutex_);
  started_.wait_for(lock, wait, [this] { return closed_ || waiting_; });
  if (closed_ || !waiting_) {
    return !closed_;
  }
  waiting_ = false;
  const std::shared_ptr<BackgroundFit> fit = current_;
  lock.unlock();
  Finished finished{fit, {}, 0.0};
  const auto begin = std::chrono::steady_clock::now();
  try {
    fit->run();
    finished.result = fit->result();
  } catch (const std::exception& error) {
    log_error("a fit failed", {{"detail", error.what()}});
  }
  finished.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  lock.lock();
  finished_ = std::move(finished);
  return !closed_;
}

}  // namespace mcnb
