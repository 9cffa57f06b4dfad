#include "mcnb/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb::thread_pool_test {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

struct Range {
  std::size_t begin;
  std::size_t end;

  auto operator<=>(const Range&) const = default;
};

// Lets threads wait until all of them have arrived.
class Meeting {
 public:
  explicit Meeting(std::size_t size) : size_(size) {}

  // Returns false if the others do not arrive. The deadline only turns a hang into a failure.
  bool wait_for_all() {
    std::unique_lock lock(mutex_);
    ++present_;
    changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return present_ >= size_; });
  }

 private:
  std::size_t size_;
  std::size_t present_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

class ThreadPoolOf : public testing::TestWithParam<std::size_t> {
 protected:
  ThreadPool pool_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Values(1, 2, 8));

TEST_P(ThreadPoolOf, CountsTheCallingThread) { EXPECT_EQ(pool_.thread_count(), GetParam()); }

TEST_P(ThreadPoolOf, CoversEachIndexExactlyOnce) {
  for (const std::size_t count : {1, 2, 3, 7, 8, 9, 63, 64, 65, 1000}) {
    for (const std::size_t grain : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{8},
                                    std::size_t{64}, std::size_t{999}, std::size_t{1000}, kMost}) {
      // Not atomic, so that the thread sanitizer sees an index that two threads run.
      std::vector<int> calls(count);
      std::mutex mutex;
      std::vector<Range> ranges;
      pool_.parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          ++calls[i];
        }
        const std::lock_guard lock(mutex);
        ranges.push_back({begin, end});
      });
      ASSERT_EQ(calls, std::vector<int>(count, 1)) << count << ", " << grain;
      std::ranges::sort(ranges);
      ASSERT_EQ(ranges.size(), (count - 1) / grain + 1) << count << ", " << grain;
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        ASSERT_EQ(ranges[i].begin, i * grain);
        ASSERT_LT(ranges[i].begin, ranges[i].end);
        ASSERT_LE(ranges[i].end - ranges[i].begin, grain);
      }
    }
  }
}

TEST_P(ThreadPoolOf, AnEmptyLoopCallsNothing) {
  int calls = 0;
  pool_.parallel_for(0, 1, [&](std::size_t, std::size_t) { ++calls; });
  pool_.parallel_for(0, kMost, [&](std::size_t, std::size_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

TEST_P(ThreadPoolOf, GivesTheResultsOfAPlainLoop) {
  constexpr std::size_t kRows = 500;
  const auto row_sum = [](std::size_t row) {
    Rng rng(1, Stream::kTest, row);
    double sum = 0.0;
    for (std::size_t i = 0; i < row % 50; ++i) {
      sum += rng.normal();
    }
    return sum;
  };
  std::vector<double> expected(kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    expected[row] = row_sum(row);
  }
  for (const std::size_t grain : {1, 3, 16, 100}) {
    std::vector<double> found(kRows);
    pool_.parallel_for(kRows, grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        found[row] = row_sum(row);
      }
    });
    EXPECT_EQ(found, expected) << grain;
  }
}

TEST_P(ThreadPoolOf, AllThreadsTakePart) {
  Meeting meeting(GetParam());
  std::atomic<std::size_t> met{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool_.parallel_for(GetParam(), 1, [&](std::size_t, std::size_t) {
    met += meeting.wait_for_all() ? 1U : 0U;
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(met, GetParam());
  EXPECT_EQ(threads.size(), GetParam());
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST_P(ThreadPoolOf, ThrowsTheExceptionOfTheLowestRangeAfterTheOthersHaveRun) {
  constexpr std::size_t kCount = 100;
  constexpr std::size_t kGrain = 3;
  for (std::size_t lowest = 0; lowest < kCount; lowest += 10) {
    std::vector<int> calls(kCount);
    std::string caught;
    try {
      pool_.parallel_for(kCount, kGrain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          ++calls[i];
        }
        if (end > lowest) {
          throw std::runtime_error(std::to_string(begin));
        }
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    EXPECT_EQ(caught, std::to_string(lowest / kGrain * kGrain));
    EXPECT_EQ(calls, std::vector<int>(kCount, 1));
  }
  std::vector<int> calls(kCount);
  pool_.parallel_for(kCount, 1, [&](std::size_t begin, std::size_t) { ++calls[begin]; });
  EXPECT_EQ(calls, std::vector<int>(kCount, 1)) << "the pool works on after a failure";
}

TEST_P(ThreadPoolOf, ACallFromInsideABodyRunsOnTheSameThread) {
  constexpr std::size_t kInner = 40;
  ThreadPool other(3);
  const auto same_thread_in_order = [&](ThreadPool& pool) {
    const std::thread::id here = std::this_thread::get_id();
    std::vector<std::size_t> begins;
    bool same = true;
    pool.parallel_for(kInner, 1, [&](std::size_t begin, std::size_t) {
      same = same && std::this_thread::get_id() == here;
      begins.push_back(begin);
    });
    return same && begins.size() == kInner && std::ranges::is_sorted(begins);
  };
  Meeting meeting(GetParam());
  std::vector<int> fine(GetParam());
  pool_.parallel_for(GetParam(), 1, [&](std::size_t begin, std::size_t) {
    meeting.wait_for_all();  // so that every thread of the pool runs one of the bodies
    fine[begin] += same_thread_in_order(pool_) ? 1 : 0;
    if (pool_.thread_count() > 1) {  // a pool of one makes no difference to other pools
      fine[begin] += same_thread_in_order(other) ? 1 : 0;
    }
  });
  EXPECT_EQ(fine, std::vector<int>(GetParam(), GetParam() > 1 ? 2 : 1));
}

TEST_P(ThreadPoolOf, AnExceptionOfAnInnerCallReachesTheOuterOne) {
  for (const std::size_t outer_count : {1, 8}) {
    try {
      pool_.parallel_for(outer_count, 1, [&](std::size_t outer, std::size_t) {
        pool_.parallel_for(10, 2, [&](std::size_t inner, std::size_t) {
          if (inner >= 4) {
            throw std::runtime_error(std::to_string(outer) + "/" + std::to_string(inner));
          }
        });
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "0/4");
    }
  }
}

TEST(ThreadPool, ALoopOfOneRangeLeavesTheThreadsToTheLoopInsideIt) {
  ThreadPool pool(2);
  Meeting meeting(2);
  std::atomic<int> met{0};
  std::thread::id outside;
  pool.parallel_for(5, 5, [&](std::size_t, std::size_t) {
    outside = std::this_thread::get_id();
    pool.parallel_for(2, 1,
                      [&](std::size_t, std::size_t) { met += meeting.wait_for_all() ? 1 : 0; });
  });
  EXPECT_EQ(outside, std::this_thread::get_id());
  EXPECT_EQ(met, 2);
}

TEST_P(ThreadPoolOf, CallsFromSeveralThreadsWaitForEachOther) {
  constexpr std::size_t kCallers = 4;
  constexpr std::size_t kLoops = 25;
  constexpr std::size_t kCount = 64;
  std::array<std::vector<std::size_t>, kCallers> calls;
  std::array<std::atomic<int>, kCallers> inside{};
  std::atomic<int> overlaps{0};
  Meeting start(kCallers);
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      calls[caller].resize(kCount);
      start.wait_for_all();
      for (std::size_t loop = 0; loop < kLoops; ++loop) {
        pool_.parallel_for(kCount, 5, [&](std::size_t begin, std::size_t end) {
          ++inside[caller];
          for (std::size_t i = begin; i < end; ++i) {
            ++calls[caller][i];
          }
          std::this_thread::yield();  // a chance for calls that do not wait
          for (std::size_t other = 0; other < kCallers; ++other) {
            overlaps += other != caller && inside[other] != 0 ? 1 : 0;
          }
          --inside[caller];
        });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  for (const auto& counts : calls) {
    EXPECT_EQ(counts, std::vector<std::size_t>(kCount, kLoops));
  }
  if (GetParam() > 1) {  // without workers there is nothing to wait for
    EXPECT_EQ(overlaps, 0);
  }
}

TEST_P(ThreadPoolOf, ShortLoopsFollowEachOther) {
  std::vector<std::size_t> calls(16);
  for (std::size_t loop = 0; loop < 500; ++loop) {
    pool_.parallel_for(calls.size(), 1, [&](std::size_t begin, std::size_t) { ++calls[begin]; });
    // The results are visible here as soon as the call returns, whichever thread wrote them.
    ASSERT_EQ(calls, std::vector<std::size_t>(calls.size(), loop + 1));
  }
}

TEST_P(ThreadPoolOf, ABodyMayBeConstantOrKeepState) {
  struct Counter {
    std::atomic<std::size_t> sum{0};
    void operator()(std::size_t begin, std::size_t end) { sum += end - begin; }
  };
  Counter counter;
  pool_.parallel_for(100, 7, counter);
  EXPECT_EQ(counter.sum, 100U) << "the body is used in place, not copied";
  std::atomic<std::size_t> sum{0};
  const auto constant = [&sum](std::size_t begin, std::size_t end) { sum += end - begin; };
  pool_.parallel_for(100, 7, constant);
  EXPECT_EQ(sum, 100U);
}

TEST(ThreadPool, MayBeMadeAndDroppedAtAnyTime) {
  for (std::size_t i = 0; i < 60; ++i) {
    ThreadPool pool(1 + i % 5);
    if (i % 2 == 0) {
      std::atomic<std::size_t> sum{0};
      pool.parallel_for(10, 1, [&](std::size_t begin, std::size_t) { sum += begin; });
      ASSERT_EQ(sum, 45U);
    }
  }
}

TEST(ThreadPool, ZeroMeansOneThreadPerProcessor) {
  EXPECT_EQ(ThreadPool(0).thread_count(), std::max(1U, std::thread::hardware_concurrency()));
}

TEST(ThreadPool, TooManyThreadsAreRefused) {
  for (const std::size_t threads : {ThreadPool::kMaxThreads + 1, kMost}) {
    try {
      const ThreadPool pool(threads);
      FAIL() << threads;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      const std::string message = error.what();
      EXPECT_NE(message.find(std::to_string(threads)), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(ThreadPool::kMaxThreads)), std::string::npos)
          << message;
    }
  }
}

TEST(ThreadPool, LoopsEndEarlyWhenToldToStop) {
  for (const std::size_t threads : {1, 2, 8}) {
    std::atomic<bool> stop{false};
    ThreadPool pool(threads, &stop);
    std::atomic<std::size_t> done{0};
    const auto loop = [&](std::size_t stop_at) {
      done = 0;
      try {
        pool.parallel_for(1000, 1, [&](std::size_t begin, std::size_t) {
          ++done;
          if (begin == stop_at) {
            stop = true;
          }
          while (stop_at < 1000 && !stop) {
            std::this_thread::yield();
          }
        });
        return true;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kSystem);
        return false;
      }
    };
    EXPECT_TRUE(loop(1000));
    EXPECT_EQ(done, 1000U);
    EXPECT_FALSE(loop(0)) << threads << " threads";
    EXPECT_GE(done, 1U);
    EXPECT_LE(done, threads);
    EXPECT_FALSE(loop(1000)) << "while it is told to stop, no loop begins";
    EXPECT_EQ(done, 0U);
    stop = false;
    EXPECT_TRUE(loop(1000));
    EXPECT_EQ(done, 1000U);
  }
}

TEST(ThreadPoolDeathTest, AGrainOfZeroIsABug) {
  ThreadPool pool(1);
  EXPECT_EXIT(pool.parallel_for(1, 0, [](std::size_t, std::size_t) {}),
              testing::KilledBySignal(SIGABRT), "positive grain");
}

// Limits this process to a few thread stacks, then asks for more threads.
[[noreturn]] void ask_for_more_threads_than_fit() {
  const rlimit room{256U << 20U, 256U << 20U};
  if (::setrlimit(RLIMIT_AS, &room) != 0) {
    std::_Exit(3);
  }
  try {
    const ThreadPool pool(ThreadPool::kMaxThreads);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(error.kind() == ErrorKind::kLimit ? 0 : 1);
  }
  std::_Exit(2);
}

TEST(ThreadPoolDeathTest, ThreadsThatTheSystemRefusesAreAnErrorNotACrash) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need more address space than this test leaves";
#endif
  EXPECT_EXIT(ask_for_more_threads_than_fit(), testing::ExitedWithCode(0),
              "threads: could start [0-9]+ of 1024: ");
}

}  // namespace
}  // namespace mcnb::thread_pool_test
