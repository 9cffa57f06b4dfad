#pragma once

#include <cstddef>
#include <span>

#include "mcnb/base/thread_pool.h"

// The limits of the machine, measured in the same way and in the same run as our own loops.
namespace mcnb::bench {

// Floating-point operations per second of independent fused multiply-adds in registers.
double measure_fma_peak(ThreadPool& threads, double seconds);

// Reads a buffer once on all threads, as fast as possible. Repeated calls measure the
// bandwidth of whichever cache or memory holds it.
class ReadStream {
 public:
  // Allocates and fills `bytes` of memory.
  ReadStream(ThreadPool& threads, std::size_t bytes);
  ~ReadStream();
  ReadStream(const ReadStream&) = delete;
  ReadStream& operator=(const ReadStream&) = delete;

  void read_once();
  std::size_t bytes() const { return count_ * sizeof(float); }

 private:
  ThreadPool& threads_;
  float* data_;
  std::size_t count_;
};

// Reads these blocks of `count` floats once on all threads, in this order, as fast as possible: the
// limit of loops over memory that is not read from one end to the other.
void read_blocks(ThreadPool& threads, std::span<const float* const> blocks, std::size_t count);

// The peak memory of this process so far, in bytes.
std::size_t peak_memory();

// The memory of this process that is present now, in bytes.
std::size_t resident_memory();

// The memory that the system reports as available, in bytes.
std::size_t available_memory();

// The shortest of repeated runs of `work`, within about `seconds`, at least three.
template <class Work>
double shortest(double seconds, Work&& work);

double now_seconds();
// Processor time that all threads of this process have taken so far. Other programs on the machine
// disturb it less than the time of day.
double processor_seconds();

template <class Work>
double shortest(double seconds, Work&& work) {
  const double begin = now_seconds();
  double best = 1e30;
  for (int run = 0; run < 3 || now_seconds() - begin < seconds; ++run) {
    const double start = now_seconds();
    work();
    const double taken = now_seconds() - start;
    best = taken < best ? taken : best;
  }
  return best;
}

}  // namespace mcnb::bench
