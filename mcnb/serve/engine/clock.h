#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>

namespace mcnb {

// Where the engine gets the time from. Safe from many threads.
class Clock {
 public:
  virtual ~Clock() = default;
  // The time that events carry, in milliseconds since 1970. Never goes back.
  virtual std::int64_t now() = 0;
  // The system's clock, in milliseconds since 1970. It may be wrong, and it may jump.
  virtual std::int64_t system_now() = 0;
  // Makes sure that `now` never returns less than `time`, the time of an event in the log.
  virtual void not_before(std::int64_t time) = 0;
  // Seconds since some fixed moment. They pass evenly, for intervals.
  virtual double uptime() = 0;
  // Seconds for which the calling thread has computed: what work takes, also on a busy machine.
  virtual double processor_seconds() = 0;
};

// Starts with the system's clock and counts evenly from there: if somebody sets the system's clock
// while the service runs, no waiting time ends early.
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
  double uptime() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  double processor_seconds() override {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

 private:
  std::mutex mutex_;
  std::int64_t start_ = SteadyClock::system_now();
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace mcnb
