#include "mcnb/base/thread_pool.h"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Short loops follow each other within microseconds, but waking a sleeping thread takes tens of
// microseconds: a thread spins for about that long before it sleeps.
constexpr int kSpins = 4000;

thread_local bool inside_loop = false;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(std::size_t threads, const std::atomic<bool>* stop) : stop_(stop) {
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  if (threads > kMaxThreads) {
    throw Error(ErrorKind::kUsage, fmt::format("threads: expected 1 to {} (0: one per processor), "
                                               "got {}",
                                               kMaxThreads, threads));
  }
  if (threads == 0) {
    threads = std::min(processors, kMaxThreads);
  }
  spins_ = threads <= processors ? kSpins : 0;
  workers_.reserve(threads - 1);
  try {
    for (std::size_t i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { serve(); });
    }
  } catch (const std::exception& error) {
    join();
    throw Error(ErrorKind::kLimit, fmt::format("threads: could start {} of {}: {}", thread_count(),
                                               threads, error.what()));
  }
}

ThreadPool::~ThreadPool() {
  join();
  // The library destroys a mutex without telling the thread sanitizer, which would then mistake a
  // new mutex at the same address, in the pool of another function, for this one.
  ::pthread_mutex_destroy(call_mutex_.native_handle());
}

void ThreadPool::join() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ++generation_;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::run_range(Loop& loop, std::size_t begin) {
  try {
    loop.body.call(loop.body.context, begin, std::min(begin + loop.grain, loop.count));
  } catch (...) {
    const std::lock_guard lock(loop.failure_mutex);
    if (!loop.failure || begin < loop.failed_at) {
      loop.failure = std::current_exception();
      loop.failed_at = begin;
    }
  }
}

// The loop remembers that it was stopped, since `stop` may be false again when it ends.
bool ThreadPool::shall_stop(Loop& loop) const {
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
    loop.cut_short = true;
  }
  return loop.cut_short.load(std::memory_order_relaxed);
}

void ThreadPool::work_on(Loop& loop) const {
  for (;;) {
    const std::size_t begin = loop.next.fetch_add(loop.grain, std::memory_order_relaxed);
    if (begin >= loop.count || shall_stop(loop)) {
      return;
    }
    run_range(loop, begin);
  }
}

void ThreadPool::run_loop(std::size_t count, std::size_t grain, RangeBody body) {
  check(grain > 0, "a parallel loop has a positive grain");
  if (count == 0) {
    return;
  }
  Loop loop{.count = count, .grain = grain, .body = body};
  if (inside_loop || workers_.empty() || count <= grain) {
    for (std::size_t begin = 0; begin < count && !shall_stop(loop); begin += grain) {
      run_range(loop, begin);
    }
  } else {
    const std::lock_guard call(call_mutex_);
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      ++generation_;
    }
    wake_.notify_all();
    inside_loop = true;
    work_on(loop);
    inside_loop = false;
    for (int spin = 0; spin < spins_ && busy_.load(std::memory_order_acquire) != 0; ++spin) {
      pause_briefly();
    }
    std::unique_lock lock(mutex_);
    loop_ = nullptr;
    done_.wait(lock, [this] { return busy_.load() == 0; });
  }
  if (loop.failure) {
    std::rethrow_exception(loop.failure);
  }
  if (loop.cut_short) {
    throw Error(ErrorKind::kSystem, "stopped");
  }
}

void ThreadPool::serve() {
  inside_loop = true;
  std::uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < spins_ && generation_.load(std::memory_order_acquire) == seen;
         ++spin) {
      pause_briefly();
    }
    Loop* loop = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load() != seen; });
      seen = generation_.load();
      if (stopping_) {
        return;
      }
      loop = loop_;
      if (loop == nullptr) {
        continue;  // too late: the others have finished the loop
      }
      ++busy_;
    }
    work_on(*loop);
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    done_.notify_one();
  }
}

}  // namespace mcnb
