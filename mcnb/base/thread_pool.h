#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace mcnb {

/// A fixed set of threads for loops in which no two iterations write to the same memory. Any thread
/// may run any part, so a loop body must not depend on its thread; then results are the same for
/// any number of threads.
class ThreadPool {
 public:
  static constexpr std::size_t kMaxThreads = 1024;

  /// `threads` counts the calling thread; 0 means one per processor. Throws Error: kUsage above
  /// kMaxThreads, kLimit if the system refuses that many. `stop` is borrowed: while it is true,
  /// loops end before their next range with an Error (kSystem).
  explicit ThreadPool(std::size_t threads = 0, const std::atomic<bool>* stop = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t thread_count() const { return workers_.size() + 1; }

  /// Calls body(begin, end) for consecutive ranges of at most `grain` that together make up
  /// [0, count), and returns when all are done. If bodies throw, the exception of the lowest range
  /// is thrown again, after the other ranges have run. A loop of one range runs on the calling
  /// thread, and so does a call from inside a body of any other loop. Calls from different threads
  /// wait for each other.
  template <class Body>
  void parallel_for(std::size_t count, std::size_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_loop(count, grain,
             {const_cast<void*>(static_cast<const void*>(std::addressof(body))),
              [](void* context, std::size_t begin, std::size_t end) {
                (*static_cast<Plain*>(context))(begin, end);
              }});
  }

 private:
  struct RangeBody {
    void* context;
    void (*call)(void* context, std::size_t begin, std::size_t end);
  };
  struct Loop {
    std::size_t count;
    std::size_t grain;
    RangeBody body;
    std::atomic<std::size_t> next{0};
    std::mutex failure_mutex;
    std::size_t failed_at = 0;
    std::exception_ptr failure;
    std::atomic<bool> cut_short{false};
  };

  void run_loop(std::size_t count, std::size_t grain, RangeBody body);
  bool shall_stop(Loop& loop) const;
  void work_on(Loop& loop) const;
  static void run_range(Loop& loop, std::size_t begin);
  void serve();
  void join();

  std::mutex call_mutex_;  ///< held by the one call in progress
  std::mutex mutex_;       ///< guards loop_, generation_'s changes, busy_'s changes and stopping_
  std::condition_variable wake_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::size_t> busy_{0};  ///< workers inside loop_
  bool stopping_ = false;
  const std::atomic<bool>* stop_;
  int spins_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace mcnb
