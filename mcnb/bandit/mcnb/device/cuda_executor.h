#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mcnb/bandit/mcnb/device/cuda_block.h"
#include "mcnb/bandit/mcnb/device/cuda_scan.h"
#include "mcnb/bandit/mcnb/device/cuda_step.h"
#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/device/rounds.h"
#include "mcnb/base/error.h"

// How kernels run on a GPU: what device_rounds.h asks of an executor. Compiled by nvcc alone.
namespace mcnb::device {

inline void expect_success(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw Error(ErrorKind::kSystem,
                std::string("device cuda: ") + what + ": " + cudaGetErrorString(error));
  }
}

struct CudaAtomics {
  static __device__ std::uint64_t add(std::uint64_t* to, std::uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(to), value);
  }
  static __device__ void set_bits(std::uint32_t* to, std::uint32_t bits) { atomicOr(to, bits); }
};

template <class Kernel>
__global__ void __launch_bounds__(kThreads) run_threads(Kernel kernel, Order order) {
  begin_kernel(order);
  const std::size_t count = kernel.count();
  for (std::size_t i = blockIdx.x * std::size_t{kThreads} + threadIdx.x; i < count;
       i += gridDim.x * std::size_t{kThreads}) {
    kernel(i);
  }
  end_kernel(order);
}

// Groups of 128 threads, so that kernels with many registers fill the GPU better.
inline constexpr std::uint32_t kGroupThreads = 128;

template <class Kernel>
__global__ void __launch_bounds__(kGroupThreads) run_counted_groups(Kernel kernel) {
  begin_kernel(Order::kAfter);
  const std::size_t count = kernel.count();
  const std::size_t groups = gridDim.x * std::size_t{kGroupThreads / kLanes};
  for (std::size_t i = (blockIdx.x * std::size_t{kGroupThreads} + threadIdx.x) / kLanes; i < count;
       i += groups) {
    kernel(i);
  }
}

template <class Kernel>
__global__ void __launch_bounds__(kThreads)
    run_blocks(Kernel kernel, std::uint32_t arms, std::uint32_t chunks) {
  __shared__ CudaBlock::Shared shared;
  begin_kernel(Order::kAfter);
  CudaBlock block{&shared};
  const std::size_t count = std::size_t{arms} * chunks;
  for (std::size_t i = blockIdx.x; i < count; i += gridDim.x) {
    kernel(block, static_cast<std::uint32_t>(i / chunks), static_cast<std::uint32_t>(i % chunks));
  }
}

template <class Kernel>
__global__ void __launch_bounds__(kThreads, Kernel::kBlocksAtOnce)
    run_counted_blocks(Kernel kernel, Order order) {
  begin_kernel(order);
  CudaBlock block{nullptr};
  const std::size_t count = kernel.count();
  for (std::size_t i = blockIdx.x; i < count; i += gridDim.x) {
    kernel(block, i);
  }
  end_kernel(order);
}

// Between the device and pinned memory of the host, which it reaches directly.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    copy_words(Word* to, const Word* from, std::uint32_t count) {
  begin_kernel(Order::kAfter);
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count) {
    to[i] = from[i];
  }
}

class CudaExecutor {
 public:
  using Atomics = CudaAtomics;
  // What a list of launches depends on beside the memory's contents.
  struct Key {
    std::uint64_t run, a, b, generation;
    bool operator<(const Key& other) const {
      return std::tie(run, a, b, generation) <
             std::tie(other.run, other.a, other.b, other.generation);
    }
  };

  CudaExecutor() {
    expect_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    int device = 0;
    expect_success(cudaGetDevice(&device), "device");
    int count = 0;
    expect_success(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                   "multiprocessors");
    multiprocessors_ = static_cast<std::uint32_t>(count);
    int major = 0;
    expect_success(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                   "compute capability");
    can_overlap_ = major >= 9;
  }
  CudaExecutor(CudaExecutor&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)),
        multiprocessors_(other.multiprocessors_),
        can_overlap_(other.can_overlap_) {}
  ~CudaExecutor() {
    drop_graphs(0);
    for (cudaEvent_t event : events_) {
      cudaEventDestroy(event);
    }
    if (stream_ != nullptr) {
      cudaStreamDestroy(stream_);
    }
  }

  void* allocate(std::size_t bytes, const char* what) {
    std::size_t free = 0;
    std::size_t total = 0;
    expect_success(cudaMemGetInfo(&free, &total), "free memory");
    void* memory = nullptr;
    if (bytes > free || cudaMalloc(&memory, std::max<std::size_t>(bytes, 16)) != cudaSuccess) {
      cudaGetLastError();
      const auto mebibytes = [](std::size_t count) { return std::to_string(count >> 20) + " MiB"; };
      throw Error(ErrorKind::kLimit, std::string("device cuda: the ") + what + " need " +
                                         mebibytes(bytes) + " more, " + mebibytes(free) + " of " +
                                         mebibytes(total) +
                                         " are free; expected fewer users, or device=cpu");
    }
    return memory;
  }
  void release(void* memory) { cudaFree(memory); }
  void* allocate_host(std::size_t bytes) {
    void* memory = nullptr;
    expect_success(cudaMallocHost(&memory, std::max<std::size_t>(bytes, 16)), "pinned memory");
    return memory;
  }
  void release_host(void* memory) { cudaFreeHost(memory); }

  // These are ordered with all launches.
  void zero(void* to, std::size_t bytes, const char* part) {
    if (bytes > 0) {
      mark(part, true);
      expect_success(cudaMemsetAsync(to, 0, bytes, stream_), part);
    }
  }
  void copy(void* to, const void* from, std::size_t bytes, const char* part) {
    if (bytes > 0) {
      mark(part, true);
      expect_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), part);
    }
  }
  void send(void* to, const void* from, std::size_t bytes, const char* part) {
    copy_pinned(to, from, bytes, cudaMemcpyHostToDevice, part);
  }
  void fetch(void* to, const void* from, std::size_t bytes, const char* part) {
    copy_pinned(to, from, bytes, cudaMemcpyDeviceToHost, part);
  }
  // These also wait, for what was launched and for themselves. They are in the same stream: a copy
  // outside could still be under way when a kernel that follows it begins.
  void to_device(void* to, const void* from, std::size_t bytes) {
    copy_and_wait(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void to_host(void* to, const void* from, std::size_t bytes) {
    copy_and_wait(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  void rows_to_host(float* to, const float* from, std::size_t length, std::size_t stride,
                    std::size_t rows) {
    copy_rows_and_wait(to, length, from, stride, length, rows, cudaMemcpyDeviceToHost);
  }
  void rows_to_device(float* to, const float* from, std::size_t length, std::size_t stride,
                      std::size_t rows) {
    copy_rows_and_wait(to, stride, from, length, length, rows, cudaMemcpyHostToDevice);
  }
  void wait() { expect_success(cudaStreamSynchronize(stream_), "wait"); }
  // Waits until kernels have written this stamp to all of these. The driver would notice the end of
  // a graph some microseconds later, so it is asked only about long ones.
  void wait_for(std::uint32_t* stamps, std::size_t count, std::uint32_t stamp) {
    constexpr int kLooks = 100'000;
    std::size_t seen = 0;
    for (int look = 0; look < kLooks && seen < count; ++look) {
      seen += std::atomic_ref(stamps[seen]).load(std::memory_order_acquire) == stamp ? 1 : 0;
    }
    if (seen < count) {
      wait();
    }
  }

  // Runs launches as one graph, which it keeps for the same key.
  template <class Launches>
  void run(const Key& key, Launches launches) {
    if (profiling_) {
      run_timed(launches);
      return;
    }
    auto found = graphs_.find(key);
    if (found == graphs_.end()) {
      drop_graphs(key.generation);
      found = graphs_.emplace(key, graph_of(launches)).first;
    }
    expect_success(cudaGraphLaunch(found->second, stream_), "graph");
  }

  template <class Kernel>
  void counted_groups(const Kernel& kernel, const char* part) {
    const auto function = run_counted_groups<Kernel>;
    launch(part, false, function, grid_of(function, kGroupThreads, 0), kGroupThreads, 0, kernel);
  }
  template <class Kernel>
  void counted_blocks(const Kernel& kernel, const char* part, Order order = Order::kAfter) {
    const auto function = run_counted_blocks<Kernel>;
    const std::size_t bytes = bytes_of_room(kernel.floats());
    expect_success(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(bytes)),
                   part);
    launch(part, false, function, grid_of(function, kThreads, bytes), kThreads, bytes, kernel,
           order);
  }
  template <class Kernel>
  void threads(const Kernel& kernel, const char* part, Order order = Order::kAfter) {
    launch(part, false, run_threads<Kernel>, multiprocessors_ * 8, kThreads, 0, kernel, order);
  }
  template <class Kernel>
  void blocks(std::uint32_t arms, std::uint32_t chunks, const Kernel& kernel, const char* part,
              std::size_t floats = 0) {
    const std::size_t count = std::size_t{arms} * chunks;
    const auto grid =
        static_cast<std::uint32_t>(std::min<std::size_t>(count, multiprocessors_ * 8));
    launch(part, false, run_blocks<Kernel>, grid, kThreads, bytes_of_room(floats), kernel, arms,
           chunks);
  }
  template <int kVectors>
  void step(const State& state, const char* part) {
    const StepPlan plan = step_plan(state);
    if (plan.stages == 0) {
      counted_groups(StepLearner<kVectors>{state}, part);
      return;
    }
    const auto function = step_through_shared<kVectors>;
    const std::size_t bytes = step_bytes(state, plan.stages);
    expect_success(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(bytes)),
                   part);
    launch(part, false, function, multiprocessors_ * plan.blocks, kStepThreads, bytes, state,
           plan.stages);
  }
  template <int kVectors>
  void scan(const State& state, const char* part) {
    const ScanPlan plan = plan_scan(state, multiprocessors_);
    if (plan.stages == 0) {
      launch(part, false, scan_directly<kVectors>, plan.blocks, kScanThreads, plan.bytes, state,
             plan.tiles);
      return;
    }
    const auto function = scan_through_shared<kVectors>;
    expect_success(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(plan.bytes)),
                   part);
    launch(part, false, function, plan.blocks, kScanThreads, plan.bytes, state, plan.tiles,
           plan.stages);
  }

  void set_profiling(bool on) {
    profiling_ = on;
    times_.clear();
  }
  std::vector<PartTime> part_times() { return std::exchange(times_, {}); }

  // The shortest time of some launches, in a few repetitions.
  template <class Launches>
  double shortest_seconds(Launches launches) {
    constexpr int kRepetitions = 7;
    const bool profiling = std::exchange(profiling_, true);
    std::vector<PartTime> kept = std::exchange(times_, {});
    double shortest = 0.0;
    for (int i = 0; i < kRepetitions; ++i) {
      run_timed(launches);
      double all = 0.0;
      for (const PartTime& part : times_) {
        all += part.seconds;
      }
      shortest = i == 0 ? all : std::min(shortest, all);
      times_.clear();
    }
    times_ = std::move(kept);
    profiling_ = profiling;
    return shortest;
  }

 private:
  template <class... Parameters, class... Arguments>
  void launch(const char* part, bool is_copy, void (*function)(Parameters...), std::uint32_t grid,
              std::uint32_t threads, std::size_t bytes, const Arguments&... arguments) {
    mark(part, is_copy);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = threads;
    config.dynamicSmemBytes = bytes;
    config.stream = stream_;
    config.attrs = &early;
    config.numAttrs = follows_kernel_ ? 1 : 0;
    expect_success(cudaLaunchKernelEx(&config, function, Parameters(arguments)...), part);
    follows_kernel_ = is_capturing_ && can_overlap_;
  }

  void copy_and_wait(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) {
      expect_success(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copy");
    }
    wait();
  }
  // Rows of `length` numbers, which begin every to_stride and from_stride numbers.
  void copy_rows_and_wait(float* to, std::size_t to_stride, const float* from,
                          std::size_t from_stride, std::size_t length, std::size_t rows,
                          cudaMemcpyKind kind) {
    if (rows > 0) {
      expect_success(
          cudaMemcpy2DAsync(to, to_stride * sizeof(float), from, from_stride * sizeof(float),
                            length * sizeof(float), rows, kind, stream_),
          "copy");
    }
    wait();
  }

  // Few numbers arrive sooner by a kernel than by a copy of the driver.
  void copy_pinned(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                   const char* part) {
    constexpr std::size_t kFewBytes = 65536;
    if (bytes <= kFewBytes && bytes % sizeof(std::uint32_t) == 0) {
      const auto words = static_cast<std::uint32_t>(bytes / sizeof(std::uint32_t));
      launch(part, true, copy_words<std::uint32_t>, parts_of(words, kThreads), kThreads, 0,
             static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from), words);
      return;
    }
    mark(part, true);
    expect_success(cudaMemcpyAsync(to, from, bytes, kind, stream_), part);
  }

  // The assembler joins reads of numbers that lie side by side, also where the last of them is not
  // used, so shared memory ends with whole vectors.
  static std::size_t bytes_of_room(std::size_t floats) {
    constexpr std::size_t kVector = 4;
    return (floats + kVector - 1) / kVector * kVector * sizeof(float);
  }

  // As many blocks as the GPU runs at once.
  template <class Function>
  std::uint32_t grid_of(Function function, std::uint32_t threads, std::size_t shared_bytes) {
    int blocks = 0;
    expect_success(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                       &blocks, function, static_cast<int>(threads), shared_bytes),
                   "occupancy");
    return multiprocessors_ * static_cast<std::uint32_t>(std::max(blocks, 1));
  }
  template <class Launches>
  cudaGraphExec_t graph_of(const Launches& launches) {
    cudaGraph_t graph = nullptr;
    expect_success(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "graph");
    is_capturing_ = true;
    follows_kernel_ = false;
    launches();
    is_capturing_ = false;
    follows_kernel_ = false;
    expect_success(cudaStreamEndCapture(stream_, &graph), "graph");
    cudaGraphExec_t ready = nullptr;
    expect_success(cudaGraphInstantiate(&ready, graph, 0), "graph");
    expect_success(cudaGraphDestroy(graph), "graph");
    return ready;
  }

  // Runs a graph with an event before each kernel and copy.
  template <class Launches>
  void run_timed(Launches launches) {
    marks_.clear();
    const cudaGraphExec_t graph = graph_of([&] {
      launches();
      mark("", false);
    });
    expect_success(cudaGraphLaunch(graph, stream_), "graph");
    wait();
    expect_success(cudaGraphExecDestroy(graph), "graph");
    for (std::size_t i = 0; i + 1 < marks_.size(); ++i) {
      float milliseconds = 0.0F;
      expect_success(cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]), "event");
      times_.push_back({marks_[i].first, marks_[i].second, milliseconds / 1e3});
    }
  }

  void mark(const char* part, bool is_copy) {
    if (is_copy) {
      follows_kernel_ = false;
    }
    if (!profiling_ || !is_capturing_) {
      return;
    }
    follows_kernel_ = false;
    marks_.emplace_back(part, is_copy);
    if (marks_.size() > events_.size()) {
      cudaEvent_t event = nullptr;
      expect_success(cudaEventCreate(&event), "event");
      events_.push_back(event);
    }
    expect_success(
        cudaEventRecordWithFlags(events_[marks_.size() - 1], stream_, cudaEventRecordExternal),
        "event");
  }
  // Graphs of other generations name memory that has moved.
  void drop_graphs(std::uint64_t generation) {
    for (auto graph = graphs_.begin(); graph != graphs_.end();) {
      if (graph->first.generation != generation) {
        cudaGraphExecDestroy(graph->second);
        graph = graphs_.erase(graph);
      } else {
        ++graph;
      }
    }
  }

  cudaStream_t stream_ = nullptr;
  std::uint32_t multiprocessors_ = 1;
  std::map<Key, cudaGraphExec_t> graphs_;
  bool profiling_ = false;
  bool is_capturing_ = false;
  bool can_overlap_ = false;
  bool follows_kernel_ = false;  // whether the last launch in this graph was a kernel
  std::vector<std::pair<const char*, bool>> marks_;  // of the graph that is timed
  std::vector<cudaEvent_t> events_;                  // one for each mark
  std::vector<PartTime> times_;
};

}  // namespace mcnb::device
