#pragma once

#include <cuda_runtime.h>

#include "mcnb/bandit/mcnb/device/cuda_bulk.h"
#include "mcnb/bandit/mcnb/device/network_kernels.h"

// The pass over all learners on a GPU. It is limited by memory: networks stream through shared
// memory, several at a time for each multiprocessor, while others are evaluated. Compiled by nvcc
// alone.
namespace mcnb::device {

inline constexpr std::uint32_t kScanThreads = 128;
inline constexpr std::uint32_t kScanGroups = kScanThreads / kLanes;  // learners at a time
inline constexpr std::uint32_t kScanUsers = 32;  // of a tile: the bits of one word
inline constexpr std::uint32_t kScanPieces = kScanUsers / kScanGroups;  // of a tile
inline constexpr std::uint32_t kMostStages = 8;

// What all threads of a block share beside the networks.
struct ScanShared {
  ArmTotals totals[kArmSlots];
  std::uint32_t words[kMostArmsAtOnce];
  std::uint64_t full[kMostStages];
};

// Bits of one tile of 32 users become a word of each arm's mask.
__device__ __forceinline__ void write_words(const State& state, ScanShared& shared,
                                            std::uint32_t tile, std::uint32_t arms) {
  __syncthreads();
  if (threadIdx.x < arms) {
    const std::uint32_t arm = threadIdx.x;
    const std::uint32_t word = shared.words[arm];
    shared.words[arm] = 0;
    state.masks[arm * std::size_t{state.words} + tile] = word;
    const std::size_t chunk = arm * std::size_t{state.chunks} + tile / (kUsersPerChunk / 32);
    if (word != 0) {
      atomicAdd(state.chunk_members + chunk, __popc(word));
      atomicAdd(state.chunk_participants + chunk, __popc(word & state.has_history[tile]));
    }
  }
  __syncthreads();
}

__device__ __forceinline__ void note_bits(const State& state, ScanShared& shared,
                                          std::uint32_t user, std::uint32_t arms,
                                          std::uint32_t bits) {
  const std::uint32_t lane = Lanes::lane();
  if (lane < arms && (bits >> lane & 1U) != 0 && user < state.users) {
    atomicOr(&shared.words[lane], 1U << user % 32);
  }
}

// Fills what the threads share; they still have to wait for each other.
__device__ __forceinline__ void prepare_scan(const State& state, ScanShared& shared,
                                             float* packed) {
  for (std::uint32_t i = threadIdx.x; i < state.inputs * kMostArmsAtOnce + kMostArmsAtOnce;
       i += kScanThreads) {
    packed[i] = state.packed[i];
  }
  if (threadIdx.x < kArmSlots) {
    shared.totals[threadIdx.x] = state.totals[threadIdx.x];
  }
  if (threadIdx.x < kMostArmsAtOnce) {
    shared.words[threadIdx.x] = 0;
  }
}

// Reads networks straight from memory.
template <int kVectors>
__global__ void __launch_bounds__(kScanThreads) scan_directly(State state) {
  extern __shared__ float room[];  // the packed arms
  __shared__ ScanShared shared;
  const std::uint32_t arms = state.task->arms;
  const float gap = state.task->gap;
  prepare_scan(state, shared, room);
  __syncthreads();
  for (std::uint32_t tile = blockIdx.x; tile < state.words; tile += gridDim.x) {
    for (std::uint32_t i = threadIdx.x / kLanes; i < kScanUsers; i += kScanGroups) {
      const std::uint32_t user = tile * kScanUsers + i;
      const float* network = state.learners + user * state.stride;
      note_bits(state, shared, user, arms,
                all_agreements<kVectors>(state, network, room, shared.totals, gap, arms));
    }
    write_words(state, shared, tile, arms);
  }
}

// Streams networks through `stages` pieces of shared memory, each for kScanGroups networks. The
// copies of a block follow each other in the order of its tiles.
template <int kVectors>
__global__ void __launch_bounds__(kScanThreads, kVectors > 8 ? 2 : 4)
    scan_through_shared(State state, std::uint32_t stages) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) float room[];  // the stages, then the packed arms
  __shared__ ScanShared shared;
  const std::uint32_t arms = state.task->arms;
  const float gap = state.task->gap;
  const auto stage_floats = static_cast<std::uint32_t>(kScanGroups * state.stride);
  float* const packed = room + std::size_t{stages} * stage_floats;
  prepare_scan(state, shared, packed);
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < stages; ++i) {
      init_barrier(&shared.full[i]);
    }
    publish_barriers();
  }
  __syncthreads();
  // Piece p of this block is a part of its tile p / kScanPieces.
  const std::uint32_t tiles =
      state.words > blockIdx.x ? (state.words - blockIdx.x - 1) / gridDim.x + 1 : 0;
  const std::uint32_t pieces = kScanPieces * tiles;
  const auto fetch = [&](std::uint32_t piece) {
    const std::uint32_t tile = blockIdx.x + piece / kScanPieces * gridDim.x;
    const std::size_t first = std::size_t{tile} * kScanUsers + piece % kScanPieces * kScanGroups;
    const std::uint32_t stage = piece % stages;
    expect_bytes(&shared.full[stage], stage_floats * 4U);
    copy_bulk(room + stage * stage_floats, state.learners + first * state.stride, stage_floats * 4U,
              &shared.full[stage]);
  };
  if (threadIdx.x == 0) {
    for (std::uint32_t piece = 0; piece < min_of(stages, pieces); ++piece) {
      fetch(piece);
    }
  }
  // The two groups of a warp take networks that lie in different banks of shared memory.
  const std::uint32_t group = threadIdx.x / kLanes;
  const std::uint32_t own = (group % 2) * (kScanGroups / 2) + group / 2;
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const std::uint32_t stage = piece % stages;
    wait_for(&shared.full[stage], piece / stages & 1U);
    const std::uint32_t tile = blockIdx.x + piece / kScanPieces * gridDim.x;
    const std::uint32_t user = tile * kScanUsers + piece % kScanPieces * kScanGroups + own;
    const float* network = room + stage * stage_floats + own * state.stride;
    const std::uint32_t bits =
        all_agreements<kVectors>(state, network, packed, shared.totals, gap, arms);
    note_bits(state, shared, user, arms, bits);
    __syncthreads();  // the stage is free
    if (threadIdx.x == 0 && piece + stages < pieces) {
      fetch(piece + stages);
    }
    if (piece % kScanPieces + 1 == kScanPieces) {
      write_words(state, shared, tile, arms);
    }
  }
#endif
}

// How a GPU streams networks: blocks on each multiprocessor, and stages of each block.
struct ScanPlan {
  std::uint32_t blocks = 0;
  std::uint32_t stages = 0;  // 0: networks are too large, or the GPU lacks the copies
};

inline ScanPlan plan_scan(const State& state, std::size_t packed) {
  int device = 0;
  int major = 0;
  int most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const std::size_t stage = kScanGroups * state.stride * sizeof(float);
  const std::size_t kept = sizeof(ScanShared) + packed + 1024 + 256;
  for (std::uint32_t blocks = 4; blocks > 0 && major >= 9; --blocks) {
    const std::size_t room = static_cast<std::size_t>(most) / blocks;
    const std::size_t stages = room > kept ? (room - kept) / stage : 0;
    if (stages >= 2) {
      return {blocks, static_cast<std::uint32_t>(stages < kMostStages ? stages : kMostStages)};
    }
  }
  return {};
}

template <int kVectors>
void launch_scan(const State& state, std::uint32_t multiprocessors, cudaStream_t stream) {
  const std::size_t packed = (state.inputs * kMostArmsAtOnce + kMostArmsAtOnce) * sizeof(float);
  const ScanPlan plan = plan_scan(state, packed);
  const auto grid = [&](std::uint32_t blocks) {
    return state.words < multiprocessors * blocks ? state.words : multiprocessors * blocks;
  };
  if (plan.stages > 0) {
    const std::size_t bytes = plan.stages * kScanGroups * state.stride * sizeof(float) + packed;
    cudaFuncSetAttribute(scan_through_shared<kVectors>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
    scan_through_shared<kVectors>
        <<<grid(plan.blocks), kScanThreads, bytes, stream>>>(state, plan.stages);
    return;
  }
  scan_directly<kVectors><<<grid(16), kScanThreads, packed, stream>>>(state);
}

}  // namespace mcnb::device
