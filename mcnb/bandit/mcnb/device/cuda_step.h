#pragma once

#include <cuda_runtime.h>

#include "mcnb/bandit/mcnb/device/cuda_block.h"
#include "mcnb/bandit/mcnb/device/cuda_bulk.h"
#include "mcnb/bandit/mcnb/device/lesson_kernels.h"

// The steps of a cluster's learners on a GPU. Each network is read and written once: it takes its
// step in shared memory, while others come and go. Compiled by nvcc alone.
namespace mcnb::device {

inline constexpr std::uint32_t kStepWarps = 4;  // of a block
inline constexpr std::uint32_t kStepThreads = 32 * kStepWarps;
inline constexpr std::uint32_t kMostStepStages = 4;

// The room that two networks take. The second lies sixteen banks beside the first, so that the two
// halves of a warp do not meet in a bank.
MCNB_ON_BOTH std::uint32_t second_network(const State& state) {
  return static_cast<std::uint32_t>((state.stride + 15) / 32 * 32 + 16);
}
MCNB_ON_BOTH std::uint32_t pair_floats(const State& state) {
  return static_cast<std::uint32_t>((second_network(state) + state.stride + 31) / 32 * 32);
}

#if __CUDA_ARCH__ >= 900
// How one warp streams its pairs of members through its own pieces of shared memory. Piece p is
// pair first + p * step of the members; one thread moves the networks.
struct PairStream {
  const State& state;
  float* own;           // the warp's stages
  std::uint64_t* full;  // [stages]
  std::uint32_t stages;
  std::uint32_t first;
  std::uint32_t step;
  std::uint32_t members;

  __device__ std::uint32_t pieces() const {
    const std::uint32_t pairs = parts_of(members, 2);
    return pairs > first ? (pairs - first - 1) / step + 1 : 0;
  }
  __device__ std::uint32_t member(std::uint32_t piece) const { return 2 * (first + piece * step); }
  __device__ bool is_pair(std::uint32_t piece) const { return member(piece) + 1 < members; }
  __device__ float* networks(std::uint32_t piece) const {
    return own + piece % stages * pair_floats(state);
  }
  __device__ float* learner(std::uint32_t member) const {
    return state.learners + state.members[member] * state.stride;
  }
  __device__ std::uint32_t bytes() const {
    return static_cast<std::uint32_t>(state.stride * sizeof(float));
  }

  __device__ void fetch(std::uint32_t piece) const {
    std::uint64_t* const barrier = full + piece % stages;
    expect_bytes(barrier, is_pair(piece) ? 2 * bytes() : bytes());
    copy_bulk(networks(piece), learner(member(piece)), bytes(), barrier);
    if (is_pair(piece)) {
      copy_bulk(networks(piece) + second_network(state), learner(member(piece) + 1), bytes(),
                barrier);
    }
  }
  __device__ void store(std::uint32_t piece) const {
    store_bulk(learner(member(piece)), networks(piece), bytes());
    if (is_pair(piece)) {
      store_bulk(learner(member(piece) + 1), networks(piece) + second_network(state), bytes());
    }
    end_group_of_stores();
  }
};
#endif

// Every warp streams pairs of learners through its own `stages` pieces of shared memory.
template <int kVectors>
__global__ void __launch_bounds__(kStepThreads)
    step_through_shared(State state, std::uint32_t stages) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) float room[];
  __shared__ std::uint64_t barriers[kStepWarps][kMostStepStages];
  begin_kernel(Order::kAfter);
  const std::uint32_t warp = threadIdx.x / 32;
  const bool is_first = threadIdx.x % 32 == 0;
  const bool is_upper = (threadIdx.x & 16U) != 0;
  const PairStream stream{.state = state,
                          .own = room + std::size_t{warp} * stages * pair_floats(state),
                          .full = barriers[warp],
                          .stages = stages,
                          .first = blockIdx.x * kStepWarps + warp,
                          .step = gridDim.x * kStepWarps,
                          .members = state.lesson_totals->members};
  const std::uint32_t pieces = stream.pieces();
  if (is_first) {
    for (std::uint32_t i = 0; i < stages; ++i) {
      init_barrier(stream.full + i);
    }
    publish_barriers();
    for (std::uint32_t piece = 0; piece < min_of(stages - 1, pieces); ++piece) {
      stream.fetch(piece);
    }
  }
  __syncwarp();
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    wait_for(stream.full + piece % stages, piece / stages & 1U);
    if (stream.is_pair(piece) || !is_upper) {
      step_network<kVectors>(state,
                             stream.networks(piece) + (is_upper ? second_network(state) : 0));
    }
    publish_writes();
    __syncwarp();
    if (is_first) {
      stream.store(piece);
      wait_for_all_reads_but_the_last();  // so the stage before this one is free
      if (piece + stages - 1 < pieces) {
        stream.fetch(piece + stages - 1);
      }
    }
  }
  if (is_first) {
    wait_for_stores();
  }
#endif
}

// Blocks on each multiprocessor, and stages of each warp.
struct StepPlan {
  std::uint32_t blocks = 0;
  std::uint32_t stages = 0;  // 0: networks are too large, or the GPU lacks the copies
};

inline std::size_t step_bytes(const State& state, std::uint32_t stages) {
  return std::size_t{kStepWarps} * stages * pair_floats(state) * sizeof(float);
}

inline StepPlan step_plan(const State& state) {
  int device = 0;
  int major = 0;
  int most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  constexpr std::size_t kKept = 1024 + 256;  // of each block, for the system and the barriers
  for (std::uint32_t blocks = 4; blocks > 0 && major >= 9; --blocks) {
    for (std::uint32_t stages = kMostStepStages; stages >= 3; --stages) {
      if (blocks * (step_bytes(state, stages) + kKept) <= static_cast<std::size_t>(most)) {
        return {blocks, stages};
      }
    }
  }
  return {};
}

}  // namespace mcnb::device
