#pragma once

#include <condition_variable>
#include <mutex>

namespace mcnb {

// Lets one connection of this process write at a time, urgent writers (those whose clients wait)
// before patient ones (housekeeping). SQLite alone lets a connection that writes again at once win
// every time, while the others sleep. Safe from many threads.
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

  // How many threads wait to enter.
  int waiting() {
    const std::lock_guard lock(mutex_);
    return urgent_ + patient_;
  }

  // Is inside the gate for as long as it lives.
  class Pass {
   public:
    Pass(WriteGate& gate, bool urgent) : gate_(gate) { gate_.enter(urgent); }
    ~Pass() { gate_.leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    WriteGate& gate_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  int urgent_ = 0;
  int patient_ = 0;
  bool taken_ = false;
};

}  // namespace mcnb
