#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Arithmetic in the sixteen fixed lanes of the CPU's kernels (numeric/kernels.h). What is written
// with it compiles as CUDA, where a lane is a thread, and as plain C++, where a lane is an element
// of an array.
#ifdef __CUDACC__
#define MCNB_ON_DEVICE __device__ __forceinline__
#define MCNB_ON_BOTH __host__ __device__ __forceinline__
#define MCNB_UNROLL _Pragma("unroll")
#define MCNB_UNROLL_BY_16 _Pragma("unroll 16")
#else
#define MCNB_ON_DEVICE inline
#define MCNB_ON_BOTH inline
#define MCNB_UNROLL
#define MCNB_UNROLL_BY_16
#endif

namespace mcnb::device {

inline constexpr std::uint32_t kLanes = 16;

#ifdef __CUDACC__
// Lane i is thread i of half a warp.
struct Lanes {
  using Wide = float;

  static __device__ __forceinline__ std::uint32_t lane() { return threadIdx.x % kLanes; }
  static MCNB_ON_DEVICE Wide zero() { return 0.0F; }
  // from[begin + lane], or 0 where that is not below `end`.
  static MCNB_ON_DEVICE Wide load(const float* from, std::uint32_t begin, std::uint32_t end) {
    const std::uint32_t i = begin + lane();
    return i < end ? from[i] : 0.0F;
  }
  static MCNB_ON_DEVICE void store(float* to, std::uint32_t begin, std::uint32_t end, Wide value) {
    const std::uint32_t i = begin + lane();
    if (i < end) {
      to[i] = value;
    }
  }
  static MCNB_ON_DEVICE Wide add(Wide a, Wide b) { return __fadd_rn(a, b); }
  static MCNB_ON_DEVICE Wide multiply(Wide a, float b) { return __fmul_rn(a, b); }
  static MCNB_ON_DEVICE Wide multiply_add(Wide a, float b, Wide c) { return __fmaf_rn(a, b, c); }
  static MCNB_ON_DEVICE Wide multiply_add_wide(Wide a, Wide b, Wide c) {
    return __fmaf_rn(a, b, c);
  }
  static MCNB_ON_DEVICE Wide relu(Wide a) { return a > 0.0F ? a : 0.0F; }
  // b where a is positive, elsewhere 0.
  static MCNB_ON_DEVICE Wide where_positive(Wide a, Wide b) { return a > 0.0F ? b : 0.0F; }
  // The sum of all lanes, in the order of the CPU's kernels; all threads receive it.
  static MCNB_ON_DEVICE float sum(Wide a) {
    const std::uint32_t half = 0xffffU << (threadIdx.x & 16U);
#pragma unroll
    for (std::uint32_t distance = 8; distance > 0; distance /= 2) {
      a = __fadd_rn(a, __shfl_xor_sync(half, a, distance));
    }
    return a;
  }
  // Bit j says whether holds(j, the sum of all lanes of a[j]). The adds are those of sum(), but a
  // thread keeps only every second value after each of them, and ends with one value to look at.
  // Overwrites `a`.
  template <int kCount, class Holds>
  static MCNB_ON_DEVICE std::uint32_t bits_of_sums(Wide (&a)[kCount], Holds holds) {
    static_assert(kCount <= static_cast<int>(kLanes), "a thread keeps at most one value");
    const std::uint32_t half = 0xffffU << (threadIdx.x & 16U);
    std::uint32_t own = lane();
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
      const bool takes_upper = (lane() & distance) != 0;
#pragma unroll
      for (int j = 0; j < distance && j < kCount; ++j) {
        Wide sent = a[j];
        if (j + distance < kCount) {
          sent = takes_upper ? a[j] : a[j + distance];
          a[j] = takes_upper ? a[j + distance] : a[j];
        }
        a[j] = __fadd_rn(a[j], __shfl_xor_sync(half, sent, distance));
      }
      own -= takes_upper && own >= kCount ? distance : 0;
    }
    const std::uint32_t bits = __ballot_sync(half, holds(own, a[0]));
    return bits >> (threadIdx.x & 16U) & ((1U << kCount) - 1);
  }
  // True in one thread of the group.
  static MCNB_ON_DEVICE bool is_first() { return lane() == 0; }
};
#else
// All lanes one after the other.
struct Lanes {
  struct Wide {
    float lane[kLanes];
  };

  template <class Lane>
  static Wide each(Lane lane) {
    Wide result;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      result.lane[i] = lane(i);
    }
    return result;
  }
  static Wide zero() { return {}; }
  static Wide load(const float* from, std::uint32_t begin, std::uint32_t end) {
    return each([&](std::uint32_t i) { return begin + i < end ? from[begin + i] : 0.0F; });
  }
  static void store(float* to, std::uint32_t begin, std::uint32_t end, const Wide& value) {
    for (std::uint32_t i = 0; i < kLanes && begin + i < end; ++i) {
      to[begin + i] = value.lane[i];
    }
  }
  static Wide add(const Wide& a, const Wide& b) {
    return each([&](std::uint32_t i) { return a.lane[i] + b.lane[i]; });
  }
  static Wide multiply(const Wide& a, float b) {
    return each([&](std::uint32_t i) { return a.lane[i] * b; });
  }
  static Wide multiply_add(const Wide& a, float b, const Wide& c) {
    return each([&](std::uint32_t i) { return std::fma(a.lane[i], b, c.lane[i]); });
  }
  static Wide multiply_add_wide(const Wide& a, const Wide& b, const Wide& c) {
    return each([&](std::uint32_t i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static Wide relu(const Wide& a) {
    return each([&](std::uint32_t i) { return a.lane[i] > 0.0F ? a.lane[i] : 0.0F; });
  }
  static Wide where_positive(const Wide& a, const Wide& b) {
    return each([&](std::uint32_t i) { return a.lane[i] > 0.0F ? b.lane[i] : 0.0F; });
  }
  static float sum(const Wide& a) {
    float sums[kLanes];
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      sums[i] = a.lane[i];
    }
    for (std::uint32_t distance = kLanes / 2; distance > 0; distance /= 2) {
      for (std::uint32_t i = 0; i < distance; ++i) {
        sums[i] += sums[i + distance];
      }
    }
    return sums[0];
  }
  template <int kCount, class Holds>
  static std::uint32_t bits_of_sums(const Wide (&a)[kCount], Holds holds) {
    std::uint32_t bits = 0;
    for (std::uint32_t j = 0; j < kCount; ++j) {
      bits |= holds(j, sum(a[j])) ? 1U << j : 0U;
    }
    return bits;
  }
  static bool is_first() { return true; }
};
#endif

using Wide = Lanes::Wide;

// Copies four bytes of whatever type.
MCNB_ON_DEVICE void copy_word(void* to, const void* from) {
#ifdef __CUDACC__
  *static_cast<std::uint32_t*>(to) = *static_cast<const std::uint32_t*>(from);
#else
  std::memcpy(to, from, sizeof(std::uint32_t));
#endif
}

// What a thread reads or writes at once; strides of networks are whole numbers of them.
struct alignas(16) FourNumbers {
  float number[4];
};

MCNB_ON_BOTH std::uint32_t min_of(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

MCNB_ON_BOTH bool has_bit(const std::uint32_t* bits, std::uint32_t i) {
  return (bits[i / 32] >> (i % 32) & 1U) != 0;
}

MCNB_ON_BOTH std::uint32_t parts_of(std::uint32_t count, std::uint32_t size) {
  return (count + size - 1) / size;
}

}  // namespace mcnb::device
