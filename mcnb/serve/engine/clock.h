#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace mcnb {

// The time that events carry, in milliseconds since 1970. Never goes back.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now() = 0;
  // What the system's clock says, right or wrong; it may jump.
  virtual std::int64_t system_now() = 0;
  // From now on no earlier than `time`: what the log says has already been.
  virtual void not_before(std::int64_t time) = 0;
};

// Follows the system's clock at the start and counts evenly from there: a clock that somebody sets
// while the service runs ends no waiting time.
class SteadyClock : public Clock {
 public:
  std::int64_t now() override {
    const std::lock_guard lock(mutex_);
    return start_ + std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now() - began_)
                        .count();
  }
  std::int64_t system_now() override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void not_before(std::int64_t time) override {
    const std::int64_t late = time - now();
    const std::lock_guard lock(mutex_);
    start_ += late > 0 ? late : 0;
  }

 private:
  std::mutex mutex_;
  std::int64_t start_ = SteadyClock::system_now();
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace mcnb
