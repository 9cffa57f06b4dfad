#pragma once

#include <cuda_runtime.h>

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/lanes.h"

// Compiled by nvcc alone.
namespace mcnb::device {

inline constexpr std::uint32_t kThreads = 256;  // of a block

// A kernel of a graph is made ready while the one before it still runs (programmatic launches, with
// compute capability 9.0). It has to wait for that kernel: before it touches memory, or, beside it,
// before it ends, so that whoever waits for the later one has waited for both.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
__device__ __forceinline__ void make_next_kernel_ready() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ __forceinline__ void begin_kernel(Order order) {
  if (order == Order::kAfter) {
    wait_for_kernel_before();
  }
  make_next_kernel_ready();
}
__device__ __forceinline__ void end_kernel(Order order) {
  if (order == Order::kBeside) {
    wait_for_kernel_before();
  }
}

// How the threads of a block share work.
struct CudaBlock {
  struct Shared {
    std::uint32_t sums[kThreads / 32];
    std::uint32_t counts[kUsersPerChunk / 32];
    std::uint16_t selected[kUsersPerChunk];
  };
  Shared* shared;

  template <class Value>
  __device__ std::uint32_t sum(std::uint32_t count, Value value) {
    std::uint32_t own = 0;
    for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
      own += value(i);
    }
    own = __reduce_add_sync(0xffffffffU, own);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      shared->sums[threadIdx.x / 32] = own;
    }
    __syncthreads();
    std::uint32_t all = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < kThreads / 32; ++i) {
      all += shared->sums[i];
    }
    return all;
  }

  // Replaces each number by the sum of those before it; returns the sum of all.
  __device__ std::uint32_t exclusive_prefix(std::uint32_t* numbers, std::uint32_t count) {
    constexpr std::uint32_t kOwn = 8;  // numbers of a thread at a time
    std::uint32_t before = 0;
    for (std::uint32_t begin = 0; begin < count; begin += kOwn * kThreads) {
      const std::uint32_t first = begin + kOwn * threadIdx.x;
      std::uint32_t own[kOwn];
      std::uint32_t sum = 0;
#pragma unroll
      for (std::uint32_t k = 0; k < kOwn; ++k) {
        own[k] = first + k < count ? numbers[first + k] : 0;
        sum += own[k];
      }
      std::uint32_t place = sum_of_warp_so_far(sum) - sum;
      __syncthreads();
      if (threadIdx.x % 32 == 31) {
        shared->sums[threadIdx.x / 32] = place + sum;
      }
      __syncthreads();
      std::uint32_t all = 0;
#pragma unroll
      for (std::uint32_t warp = 0; warp < kThreads / 32; ++warp) {
        place += warp < threadIdx.x / 32 ? shared->sums[warp] : 0;
        all += shared->sums[warp];
      }
      place += before;
#pragma unroll
      for (std::uint32_t k = 0; k < kOwn; ++k) {
        if (first + k < count) {
          numbers[first + k] = place;
        }
        place += own[k];
      }
      before += all;
    }
    return before;
  }

  // Takes the selected numbers below count <= kUsersPerChunk in their order.
  template <class Select, class Take>
  __device__ std::uint32_t compact(std::uint32_t count, Select select, Take take) {
    const std::uint32_t lane = threadIdx.x % 32;
    __syncthreads();
    std::uint32_t ballots[kUsersPerChunk / kThreads];
#pragma unroll
    for (std::uint32_t turn = 0; turn < kUsersPerChunk / kThreads; ++turn) {
      const std::uint32_t i = turn * kThreads + threadIdx.x;
      ballots[turn] = __ballot_sync(0xffffffffU, i < count && select(i));
      if (lane == 0) {
        shared->counts[i / 32] = __popc(ballots[turn]);
      }
    }
    __syncthreads();
    if (threadIdx.x < 32) {  // the counts become the numbers selected before
      const std::uint32_t own = shared->counts[lane];
      const std::uint32_t so_far = sum_of_warp_so_far(own);
      shared->counts[lane] = so_far - own;
      if (lane == 31) {
        shared->sums[0] = so_far;
      }
    }
    __syncthreads();
    const std::uint32_t all = shared->sums[0];
#pragma unroll
    for (std::uint32_t turn = 0; turn < kUsersPerChunk / kThreads; ++turn) {
      const std::uint32_t i = turn * kThreads + threadIdx.x;
      if ((ballots[turn] >> lane & 1U) != 0) {
        const std::uint32_t rank =
            shared->counts[i / 32] + __popc(ballots[turn] & ((1U << lane) - 1));
        shared->selected[rank] = static_cast<std::uint16_t>(i);
      }
    }
    __syncthreads();
    for (std::uint32_t rank = threadIdx.x; rank < all; rank += kThreads) {
      take(shared->selected[rank], rank);
    }
    return all;
  }

  // As many floats as the kernel asked for, which the threads share.
  __device__ float* room() {
    extern __shared__ __align__(16) float shared_floats[];
    return shared_floats;
  }
  // Calls action by thread, or by group of lanes. All calls have ended when it returns.
  template <class Action>
  __device__ void for_each_group(std::uint32_t count, Action action) {
    for (std::uint32_t i = threadIdx.x / kLanes; i < count; i += kThreads / kLanes) {
      action(i);
    }
    __syncthreads();
  }
  template <class Action>
  __device__ void for_each(std::size_t count, Action action) {
    for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
      action(i);
    }
    __syncthreads();
  }
  template <class Action>
  __device__ void once(Action action) {
    if (threadIdx.x == 0) {
      action();
    }
  }
  // Tells the host that what the block has written for it is there.
  __device__ void stamp(std::uint32_t* to, std::uint32_t value) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence_system();
      *static_cast<volatile std::uint32_t*>(to) = value;
    }
  }
  // The sum of this thread's number and those of the threads before it in its warp.
  static __device__ std::uint32_t sum_of_warp_so_far(std::uint32_t sum) {
    for (std::uint32_t distance = 1; distance < 32; distance *= 2) {
      const std::uint32_t other = __shfl_up_sync(0xffffffffU, sum, distance);
      sum += threadIdx.x % 32 >= distance ? other : 0;
    }
    return sum;
  }
  __device__ void atomic_add(std::uint32_t* to, std::uint32_t value) { atomicAdd(to, value); }
  __device__ void atomic_add(std::uint64_t* to, std::uint64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), value);
  }
  __device__ void atomic_max(std::uint32_t* to, std::uint32_t value) { atomicMax(to, value); }
};

}  // namespace mcnb::device
