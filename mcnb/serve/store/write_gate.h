#pragma once

#include <condition_variable>
#include <mutex>

namespace mcnb {

// Lets one connection of this process write at a time. Whoever answers clients goes before whoever
// keeps house: SQLite alone lets a connection that writes again at once win every time, while the
// others sleep. Safe from many threads.
class WriteGate {
 public:
  void enter(bool urgent) {
    std::unique_lock lock(mutex_);
    int& waiting = urgent ? urgent_ : patient_;
    ++waiting;
    wake_.wait(lock, [&] { return !taken_ && (urgent || urgent_ == 0); });
    --waiting;
    taken_ = true;
  }
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    wake_.notify_all();
  }

  // How many wait to enter.
  int waiting() {
    const std::lock_guard lock(mutex_);
    return urgent_ + patient_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  int urgent_ = 0;
  int patient_ = 0;
  bool taken_ = false;
};

}  // namespace mcnb
