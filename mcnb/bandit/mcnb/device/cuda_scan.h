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
inline constexpr std::uint32_t kArmsPerWarp = kMostArmsAtOnce / (kScanThreads / 32);

// What a block takes at a time: a piece of eight users, a byte of each mask, where there are few,
// so that blocks have equally much to do, or else a word, which is written less often.
struct ScanTiles {
  std::uint32_t shift;  // a tile is 1 << shift pieces: 1 or 4
  std::uint32_t count;

  MCNB_ON_BOTH std::uint32_t pieces() const { return 1U << shift; }
  // Piece i of a block.
  MCNB_ON_DEVICE std::uint32_t tile(std::uint32_t i) const {
    return blockIdx.x + (i >> shift) * gridDim.x;
  }
  MCNB_ON_DEVICE std::uint32_t piece(std::uint32_t i) const {
    return (tile(i) << shift) + (i & (pieces() - 1));
  }
  MCNB_ON_DEVICE bool ends_tile(std::uint32_t i) const {
    return (i & (pieces() - 1)) == pieces() - 1;
  }
  MCNB_ON_DEVICE std::uint32_t pieces_of_block() const {
    return (count + gridDim.x - 1 - blockIdx.x) / gridDim.x << shift;
  }
};

// What all threads of a block share beside the networks.
struct ScanShared {
  ArmTotals totals[kArmSlots];
  std::uint32_t agree[2][32];  // a bit for each arm, of the learners of two tiles
  std::uint64_t full[kMostStages];
};

// Notes with which arms the learner of a group agrees. Tiles take turns in what they note.
__device__ __forceinline__ void note_agreements(const State& state, ScanShared& shared,
                                                const ScanTiles& tiles, std::uint32_t i,
                                                std::uint32_t group, std::uint32_t bits) {
  if (Lanes::is_first()) {
    const std::uint32_t user = tiles.piece(i) * kScanGroups + group;
    shared.agree[i >> tiles.shift & 1U][user % (kScanGroups << tiles.shift)] =
        user < state.users ? bits : 0;
  }
}

// What is noted of the tile of piece i becomes a byte or a word of each arm's mask. Each warp
// writes those of some arms.
__device__ __forceinline__ void write_tile(const State& state, const ScanShared& shared,
                                           const ScanTiles& tiles, std::uint32_t i,
                                           std::uint32_t arms) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t first_arm = threadIdx.x / 32 * kArmsPerWarp;
  const std::uint32_t agree =
      lane < kScanGroups << tiles.shift ? shared.agree[i >> tiles.shift & 1U][lane] : 0;
  std::uint32_t members = 0;
#pragma unroll
  for (std::uint32_t j = 0; j < kArmsPerWarp; ++j) {
    const std::uint32_t bits = __ballot_sync(0xffffffffU, (agree >> (first_arm + j) & 1U) != 0);
    members = lane == j ? bits : members;
  }
  const std::uint32_t arm = first_arm + lane;
  if (lane >= kArmsPerWarp || arm >= arms) {
    return;
  }
  const std::uint32_t tile = tiles.tile(i);
  std::uint32_t* const mask = state.masks + arm * std::size_t{state.words};
  std::uint32_t participants = 0;
  if (tiles.shift == 0) {
    reinterpret_cast<std::uint8_t*>(mask)[tile] = static_cast<std::uint8_t>(members);
    participants = members & reinterpret_cast<const std::uint8_t*>(state.has_history)[tile];
  } else {
    mask[tile] = members;
    participants = members & state.has_history[tile];
  }
  if (members != 0) {
    const std::size_t chunk =
        arm * std::size_t{state.chunks} + (tile << tiles.shift) / (kUsersPerChunk / kScanGroups);
    atomicAdd(state.chunk_members + chunk, __popc(members));
    atomicAdd(state.chunk_participants + chunk, __popc(participants));
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
__global__ void __launch_bounds__(kScanThreads) scan_directly(State state, ScanTiles tiles) {
  extern __shared__ float room[];  // the packed arms
  __shared__ ScanShared shared;
  begin_kernel(Order::kAfter);
  const std::uint32_t arms = state.task->arms;
  const float gap = state.task->gap;
  prepare_scan(state, shared, room);
  __syncthreads();
  const std::uint32_t group = threadIdx.x / kLanes;
  for (std::uint32_t i = 0; i < tiles.pieces_of_block(); ++i) {
    const std::uint32_t user = tiles.piece(i) * kScanGroups + group;
    const float* network = state.learners + user * state.stride;
    note_agreements(state, shared, tiles, i, group,
                    all_agreements<kVectors>(state, network, room, shared.totals, gap, arms));
    if (tiles.ends_tile(i)) {
      __syncthreads();  // so what was noted of the tile before may be overwritten, too
      write_tile(state, shared, tiles, i, arms);
    }
  }
}

// Streams networks through `stages` stages of shared memory, each for a piece. The first ones are
// on their way while the kernel before this one runs, which does not write them.
template <int kVectors>
__global__ void __launch_bounds__(kScanThreads, kVectors > 8 ? 2 : 4)
    scan_through_shared(State state, ScanTiles tiles, std::uint32_t stages) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) float room[];  // the stages, then the packed arms
  __shared__ ScanShared shared;
  const auto stage_floats = static_cast<std::uint32_t>(kScanGroups * state.stride);
  float* const packed = room + std::size_t{stages} * stage_floats;
  const std::uint32_t pieces = tiles.pieces_of_block();
  const auto fetch = [&](std::uint32_t i) {
    const std::size_t first = std::size_t{tiles.piece(i)} * kScanGroups;
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
    note_agreements(state, shared, tiles, i, own,
                    all_agreements<kVectors>(state, network, packed, shared.totals, gap, arms));
    __syncthreads();  // the stage is free, and so is what was noted of the tile before
    if (threadIdx.x == 0 && i + stages < pieces) {
      fetch(i + stages);
    }
    if (tiles.ends_tile(i)) {
      write_tile(state, shared, tiles, i, arms);
    }
  }
#endif
}

// How a GPU streams networks.
struct ScanPlan {
  ScanTiles tiles;
  std::uint32_t blocks = 0;
  std::uint32_t stages = 0;  // of a block; 0: networks are too large, or the GPU lacks the copies
  std::size_t bytes = 0;     // of shared memory for a block
};

// A plan for at most so many blocks.
inline ScanPlan plan_of(const State& state, std::uint32_t blocks, std::uint32_t stages,
                        std::size_t bytes) {
  constexpr std::uint32_t kManyWords = 16;  // for each block
  const bool has_many = state.words >= kManyWords * blocks;
  const ScanTiles tiles =
      has_many ? ScanTiles{2, state.words} : ScanTiles{0, parts_of(state.users, kScanGroups)};
  return {tiles, min_of(tiles.count, blocks), stages, bytes};
}

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
      return plan_of(state, multiprocessors * blocks, used, used * stage + packed);
    }
  }
  return plan_of(state, multiprocessors * 16, 0, packed);
}

}  // namespace mcnb::device
