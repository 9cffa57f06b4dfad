#pragma once

#include <cuda_runtime.h>

#include "mcnb/bandit/mcnb/device/cuda_block.h"
#include "mcnb/bandit/mcnb/device/cuda_bulk.h"
#include "mcnb/bandit/mcnb/device/network_kernels.h"

// The pass over all learners on a GPU. It is limited by memory: networks stream through shared
// memory, several at a time for each multiprocessor, while others are evaluated. Compiled by nvcc
// alone.
namespace mcnb::device {

inline constexpr std::uint32_t kScanThreads = 128;
inline constexpr std::uint32_t kScanGroups = kScanThreads / kLanes;  // learners at a time: a piece
inline constexpr std::uint32_t kMostStages = 8;
static_assert(kScanGroups == 8, "a piece becomes a byte of a mask");

// What all threads of a block share beside the networks.
struct ScanShared {
  ArmTotals totals[kArmSlots];
  std::uint32_t agree[2][kScanGroups];  // a bit for each arm, of the learners of two pieces
  std::uint64_t full[kMostStages];
};

// All learners are pieces of eight; their number is that of the bytes of a mask.
MCNB_ON_BOTH std::uint32_t pieces_of(const State& state) {
  return parts_of(state.users, kScanGroups);
}

// Notes with which arms a group's learner agrees.
__device__ __forceinline__ void note_agreements(const State& state, std::uint32_t* agree,
                                                std::uint32_t user, std::uint32_t bits) {
  if (Lanes::is_first()) {
    agree[user % kScanGroups] = user < state.users ? bits : 0;
  }
}

// What is noted of a piece becomes a byte of each arm's mask.
__device__ __forceinline__ void write_piece(const State& state, const std::uint32_t* agree,
                                            std::uint32_t piece, std::uint32_t arms) {
  const std::uint32_t arm = threadIdx.x;
  if (arm >= arms) {
    return;
  }
  std::uint32_t byte = 0;
#pragma unroll
  for (std::uint32_t i = 0; i < kScanGroups; ++i) {
    byte |= (agree[i] >> arm & 1U) << i;
  }
  auto* const mask = reinterpret_cast<std::uint8_t*>(state.masks + arm * std::size_t{state.words});
  mask[piece] = static_cast<std::uint8_t>(byte);
  if (byte != 0) {
    const auto* has_history = reinterpret_cast<const std::uint8_t*>(state.has_history);
    const std::size_t chunk =
        arm * std::size_t{state.chunks} + piece / (kUsersPerChunk / kScanGroups);
    atomicAdd(state.chunk_members + chunk, __popc(byte));
    atomicAdd(state.chunk_participants + chunk, __popc(byte & has_history[piece]));
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
}

// Reads networks straight from memory.
template <int kVectors>
__global__ void __launch_bounds__(kScanThreads) scan_directly(State state) {
  extern __shared__ float room[];  // the packed arms
  __shared__ ScanShared shared;
  begin_kernel(Order::kAfter);
  const std::uint32_t arms = state.task->arms;
  const float gap = state.task->gap;
  prepare_scan(state, shared, room);
  __syncthreads();
  std::uint32_t turn = 0;
  for (std::uint32_t piece = blockIdx.x; piece < pieces_of(state); piece += gridDim.x, turn ^= 1U) {
    const std::uint32_t user = piece * kScanGroups + threadIdx.x / kLanes;
    const float* network = state.learners + user * state.stride;
    note_agreements(state, shared.agree[turn], user,
                    all_agreements<kVectors>(state, network, room, shared.totals, gap, arms));
    __syncthreads();  // so what was noted one turn before may be overwritten, too
    write_piece(state, shared.agree[turn], piece, arms);
  }
}

// Streams networks through `stages` stages of shared memory, each for a piece. The first ones are
// on their way while the kernel before this one runs, which does not write them.
template <int kVectors>
__global__ void __launch_bounds__(kScanThreads, kVectors > 8 ? 2 : 4)
    scan_through_shared(State state, std::uint32_t stages) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) float room[];  // the stages, then the packed arms
  __shared__ ScanShared shared;
  const auto stage_floats = static_cast<std::uint32_t>(kScanGroups * state.stride);
  float* const packed = room + std::size_t{stages} * stage_floats;
  const std::uint32_t pieces =
      (pieces_of(state) + gridDim.x - 1 - blockIdx.x) / gridDim.x;  // of this block
  const auto piece_at = [&](std::uint32_t i) { return blockIdx.x + i * gridDim.x; };
  const auto fetch = [&](std::uint32_t i) {
    const std::size_t first = std::size_t{piece_at(i)} * kScanGroups;
    const std::uint32_t stage = i % stages;
    expect_bytes(&shared.full[stage], stage_floats * 4U);
    copy_bulk(room + stage * stage_floats, state.learners + first * state.stride, stage_floats * 4U,
              &shared.full[stage]);
  };
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < stages; ++i) {
      init_barrier(&shared.full[i]);
    }
    publish_barriers();
    for (std::uint32_t i = 0; i < min_of(stages, pieces); ++i) {
      fetch(i);
    }
  }
  begin_kernel(Order::kAfter);
  const std::uint32_t arms = state.task->arms;
  const float gap = state.task->gap;
  prepare_scan(state, shared, packed);
  __syncthreads();
  // The two groups of a warp take networks that lie in different banks of shared memory.
  const std::uint32_t group = threadIdx.x / kLanes;
  const std::uint32_t own = (group % 2) * (kScanGroups / 2) + group / 2;
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const std::uint32_t stage = i % stages;
    wait_for(&shared.full[stage], i / stages & 1U);
    const float* network = room + stage * stage_floats + own * state.stride;
    note_agreements(state, shared.agree[i % 2], piece_at(i) * kScanGroups + own,
                    all_agreements<kVectors>(state, network, packed, shared.totals, gap, arms));
    __syncthreads();  // the stage is free, and so is what was noted one piece before
    if (threadIdx.x == 0 && i + stages < pieces) {
      fetch(i + stages);
    }
    write_piece(state, shared.agree[i % 2], piece_at(i), arms);
  }
#endif
}

// How a GPU streams networks.
struct ScanPlan {
  std::uint32_t blocks = 0;
  std::uint32_t stages = 0;  // of a block; 0: networks are too large, or the GPU lacks the copies
  std::size_t bytes = 0;     // of shared memory for a block
};

inline ScanPlan plan_scan(const State& state, std::uint32_t multiprocessors) {
  int device = 0;
  int major = 0;
  int most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const std::size_t packed = (state.inputs * kMostArmsAtOnce + kMostArmsAtOnce) * sizeof(float);
  const std::size_t stage = kScanGroups * state.stride * sizeof(float);
  const std::size_t kept = sizeof(ScanShared) + packed + 1024 + 256;
  for (std::uint32_t blocks = 4; blocks > 0 && major >= 9; --blocks) {
    const std::size_t room = static_cast<std::size_t>(most) / blocks;
    const std::size_t stages = room > kept ? (room - kept) / stage : 0;
    if (stages >= 2) {
      const std::uint32_t used = min_of(static_cast<std::uint32_t>(stages), kMostStages);
      return {min_of(pieces_of(state), multiprocessors * blocks), used, used * stage + packed};
    }
  }
  return {min_of(pieces_of(state), multiprocessors * 16), 0, packed};
}

}  // namespace mcnb::device
