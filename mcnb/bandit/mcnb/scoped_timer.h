#pragma once

#include <chrono>

namespace mcnb {

// Adds the seconds of its own lifetime to a sum.
class ScopedTimer {
 public:
  // Borrows `seconds`.
  explicit ScopedTimer(double& seconds) : seconds_(seconds) {}
  ~ScopedTimer() {
    const auto now = std::chrono::steady_clock::now();
    seconds_ += std::chrono::duration<double>(now - begin_).count();
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace mcnb
