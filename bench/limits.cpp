#include "bench/limits.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mcnb::bench::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

constexpr std::size_t kChains = 12;  // enough to hide the latency of the multiply-adds

// Returns the number of floating-point operations done.
double MultiplyAdd(std::size_t rounds, float* result) {
  const Tag tag;
  Vector chains[kChains];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kChains; ++i) {
    chains[i] = hn::Set(tag, static_cast<float>(i));
  }
  const Vector factor = hn::Set(tag, 0.999F);
  const Vector term = hn::Set(tag, 0.001F);
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kChains; ++i) {
      chains[i] = hn::MulAdd(chains[i], factor, term);
    }
  }
  Vector sum = chains[0];
  for (std::size_t i = 1; i < kChains; ++i) {
    sum = hn::Add(sum, chains[i]);
  }
  *result = hn::GetLane(sum);
  return 2.0 * static_cast<double>(rounds * kChains * hn::Lanes(tag));
}

float SumUp(const float* from, std::size_t count) {
  const Tag tag;
  const std::size_t lanes = hn::Lanes(tag);
  Vector sums[8];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {
    sums[i] = hn::Zero(tag);
  }
  for (std::size_t at = 0; at + 8 * lanes <= count; at += 8 * lanes) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      sums[i] = hn::Add(sums[i], hn::LoadU(tag, from + at + i * lanes));
    }
  }
  Vector sum = sums[0];
  for (std::size_t i = 1; i < 8; ++i) {
    sum = hn::Add(sum, sums[i]);
  }
  return hn::GetLane(sum);
}

}  // namespace
}  // namespace mcnb::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "mcnb/base/error.h"

namespace mcnb::bench {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(SumUp);

namespace {

// Keeps the compiler from dropping the loops.
std::atomic<float> sink{0.0F};

constexpr std::size_t kFloatsPerTurn = std::size_t{1} << 16;
constexpr std::size_t kFloatsOfALine = 16;

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double measure_fma_peak(ThreadPool& threads, double seconds) {
  constexpr std::size_t kRounds = 200'000;
  std::vector<double> operations(threads.thread_count());
  const double best = shortest(seconds, [&] {
    threads.parallel_for(threads.thread_count(), 1, [&](std::size_t begin, std::size_t) {
      float result = 0.0F;
      operations[begin] = HWY_DYNAMIC_DISPATCH(MultiplyAdd)(kRounds, &result);
      sink.store(result, std::memory_order_relaxed);
    });
  });
  return static_cast<double>(operations.size()) * operations[0] / best;
}

ReadStream::ReadStream(ThreadPool& threads, std::size_t bytes)
    : threads_(threads), count_(std::max<std::size_t>(bytes / sizeof(float), 1024)) {
  void* memory = ::mmap(nullptr, count_ * sizeof(float), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kLimit, "benchmark: no memory for the read stream");
  }
  ::madvise(memory, count_ * sizeof(float), MADV_HUGEPAGE);
  data_ = static_cast<float*>(memory);
  std::fill_n(data_, count_, 1.0F);
}

// While a block is summed up, the next one is fetched.
void read_blocks(ThreadPool& threads, std::span<const float* const> blocks, std::size_t count) {
  const std::size_t turn = kFloatsPerTurn / count + 1;
  threads.parallel_for(blocks.size(), turn, [&](std::size_t begin, std::size_t end) {
    float sum = 0.0F;
    for (std::size_t i = begin; i < end; ++i) {
      const float* next = blocks[std::min(i + 1, end - 1)];
      for (std::size_t k = 0; k < count; k += kFloatsOfALine) {
        __builtin_prefetch(next + k);
      }
      sum += HWY_DYNAMIC_DISPATCH(SumUp)(blocks[i], count);
    }
    sink.store(sum, std::memory_order_relaxed);
  });
}

ReadStream::~ReadStream() { ::munmap(data_, count_ * sizeof(float)); }

void ReadStream::read_once() {
  threads_.parallel_for(count_, kFloatsPerTurn, [&](std::size_t begin, std::size_t end) {
    sink.store(HWY_DYNAMIC_DISPATCH(SumUp)(data_ + begin, end - begin), std::memory_order_relaxed);
  });
}

namespace {

// The number of a line "Name:  123 kB" of `path`, in bytes; 0 if there is no such line.
std::size_t kernel_figure(const char* path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t kibibytes = 0;
    if (words >> name >> kibibytes && name == wanted) {
      return kibibytes * 1024;
    }
  }
  return 0;
}

}  // namespace

std::size_t available_memory() { return kernel_figure("/proc/meminfo", "MemAvailable:"); }

std::size_t resident_memory() { return kernel_figure("/proc/self/status", "VmRSS:"); }

std::size_t peak_memory() { return kernel_figure("/proc/self/status", "VmHWM:"); }

}  // namespace mcnb::bench
#endif  // HWY_ONCE
