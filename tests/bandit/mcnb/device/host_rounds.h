#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/mcnb/device/device_contents.h"

// The kernels of device/round_kernels.h as plain loops, so that they can be tested without a GPU.
namespace mcnb::device {

struct HostBlock {
  std::vector<float> floats;

  float* room() { return floats.data(); }
  template <class Action>
  void for_each_group(std::uint32_t count, Action action) {
    for (std::uint32_t i = 0; i < count; ++i) {
      action(i);
    }
  }
  template <class Value>
  std::uint32_t sum(std::uint32_t count, Value value) {
    std::uint32_t all = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      all += value(i);
    }
    return all;
  }
  std::uint32_t exclusive_prefix(std::uint32_t* numbers, std::uint32_t count) {
    std::uint32_t all = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t own = numbers[i];
      numbers[i] = all;
      all += own;
    }
    return all;
  }
  template <class Select, class Take>
  std::uint32_t compact(std::uint32_t count, Select select, Take take) {
    std::vector<std::uint32_t> selected;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (select(i)) {
        selected.push_back(i);
      }
    }
    for (std::uint32_t rank = 0; rank < selected.size(); ++rank) {
      take(selected[rank], rank);
    }
    return static_cast<std::uint32_t>(selected.size());
  }
  template <class Action>
  void for_each(std::size_t count, Action action) {
    for (std::size_t i = 0; i < count; ++i) {
      action(i);
    }
  }
  template <class Action>
  void once(Action action) {
    action();
  }
  template <class T>
  void atomic_add(T* to, T value) {
    *to += value;
  }
  void stamp(std::uint32_t* to, std::uint32_t value) { *to = value; }
  void atomic_max(std::uint32_t* to, std::uint32_t value) { *to = std::max(*to, value); }
};

struct HostExecutor {
  struct Atomics {
    static std::uint64_t add(std::uint64_t* to, std::uint64_t value) {
      const std::uint64_t before = *to;
      *to += value;
      return before;
    }
    static void set_bits(std::uint32_t* to, std::uint32_t bits) { *to |= bits; }
  };
  struct Key {
    std::uint64_t run, a, b, generation;
  };

  void* allocate(std::size_t bytes, const char*) { return std::malloc(bytes + 1); }
  void release(void* memory) { std::free(memory); }
  void* allocate_host(std::size_t bytes) { return std::malloc(bytes + 1); }
  void release_host(void* memory) { std::free(memory); }
  void zero(void* to, std::size_t bytes, const char*) { std::memset(to, 0, bytes); }
  void copy(void* to, const void* from, std::size_t bytes, const char*) {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }
  void to_device(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes, ""); }
  void to_host(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes, ""); }
  void send(void* to, const void* from, std::size_t bytes, const char*) {
    copy(to, from, bytes, "");
  }
  void fetch(void* to, const void* from, std::size_t bytes, const char*) {
    copy(to, from, bytes, "");
  }
  void rows_to_host(float* to, const float* from, std::size_t length, std::size_t stride,
                    std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      copy(to + i * length, from + i * stride, length * sizeof(float), "");
    }
  }
  void rows_to_device(float* to, const float* from, std::size_t length, std::size_t stride,
                      std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      copy(to + i * stride, from + i * length, length * sizeof(float), "");
    }
  }
  void wait() {}
  void wait_for(const std::uint32_t* stamps, std::size_t count, std::uint32_t stamp) {
    for (std::size_t i = 0; i < count; ++i) {
      check(stamps[i] == stamp, "a kernel has stamped its results");
    }
  }
  template <class Launches>
  void run(const Key&, Launches launches) {
    launches();
  }
  void set_profiling(bool) {}
  std::vector<PartTime> part_times() { return {}; }
  template <class Launches>
  double shortest_seconds(Launches launches) {
    launches();
    return 0.0;
  }

  template <class Kernel>
  void counted_groups(const Kernel& kernel, const char*) {
    for (std::size_t i = 0; i < kernel.count(); ++i) {
      kernel(i);
    }
  }
  template <class Kernel>
  void counted_blocks(const Kernel& kernel, const char*, Order = Order::kAfter) {
    for (std::size_t i = 0; i < kernel.count(); ++i) {
      HostBlock block{std::vector<float>(kernel.floats(), std::nanf(""))};
      kernel(block, i);
    }
  }
  template <class Kernel>
  void threads(const Kernel& kernel, const char*, Order = Order::kAfter) {
    for (std::size_t i = 0; i < kernel.count(); ++i) {
      kernel(i);
    }
  }
  template <class Kernel>
  void blocks(std::uint32_t arms, std::uint32_t chunks, const Kernel& kernel, const char*,
              std::size_t floats = 0) {
    for (std::uint32_t arm = 0; arm < arms; ++arm) {
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        HostBlock block{std::vector<float>(floats, std::nanf(""))};
        kernel(block, arm, chunk);
      }
    }
  }
  template <int kVectors>
  void step(const State& state, const char* part) {
    counted_groups(StepLearner<kVectors>{state}, part);
  }
  template <int kVectors>
  void scan(const State& state, const char*) {
    const std::uint32_t arms = state.task->arms;
    for (std::uint32_t user = 0; user < state.users; ++user) {
      const std::uint32_t bits =
          all_agreements<kVectors>(state, state.learners + user * state.stride, state.packed,
                                   state.totals, state.task->gap, arms);
      for (std::uint32_t arm = 0; arm < arms; ++arm) {
        std::uint32_t& word = state.masks[arm * std::size_t{state.words} + user / 32];
        word = (user % 32 == 0 ? 0 : word) | (bits >> arm & 1U) << user % 32;
        if ((bits >> arm & 1U) != 0) {
          const std::size_t chunk = arm * std::size_t{state.chunks} + user / kUsersPerChunk;
          state.chunk_members[chunk] += 1;
          state.chunk_participants[chunk] += has_bit(state.has_history, user) ? 1 : 0;
        }
      }
    }
  }
};

inline std::unique_ptr<Rounds> make_host_rounds(const RoundSizes& sizes,
                                                std::span<const float> start) {
  return std::make_unique<DeviceRounds<HostExecutor>>(HostExecutor(), sizes, start);
}

// What tests of a device run on: with MCNB_TEST_DEVICE=cuda the GPU (`./test --device cuda`),
// otherwise plain loops.
inline bool test_on_cuda() {
  const char* const device = std::getenv("MCNB_TEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}

// Whether a tool watches that makes kernels hundreds of times as slow.
inline bool test_few_rounds() { return std::getenv("MCNB_TEST_ROUNDS") != nullptr; }
// A tenth of these rounds if one does, but at least two.
inline std::uint64_t test_rounds(std::uint64_t rounds) {
  return test_few_rounds()
             ? std::max<std::uint64_t>(std::min<std::uint64_t>(rounds, 2), rounds / 10)
             : rounds;
}

inline std::unique_ptr<Rounds> make_test_rounds(const RoundSizes& sizes,
                                                std::span<const float> start) {
  return test_on_cuda() ? make_cuda_rounds(sizes, start) : make_host_rounds(sizes, start);
}

}  // namespace mcnb::device
