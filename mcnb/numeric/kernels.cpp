#include "mcnb/numeric/kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/kernels.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "mcnb/numeric/kernels.inc"

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kCachedParameters = 65'536;  // 256 KiB

constexpr std::size_t round_up_to_four(std::size_t count) { return (count + 3) / 4 * 4; }

#if HWY_TARGET == HWY_SCALAR
template <std::size_t kArms>
void sum_rows(const float (*lanes)[kSumLanes], float* sums) {
  for (std::size_t arm = 0; arm < kArms; ++arm) {
    sums[arm] = sum_lanes(lanes[arm]);
  }
}
#else
HWY_INLINE auto fold_to_four(const float* lanes) {
  const hn::FixedTag<float, 4> four;
  return hn::Add(hn::Add(hn::Load(four, lanes), hn::Load(four, lanes + 8)),
                 hn::Add(hn::Load(four, lanes + 4), hn::Load(four, lanes + 12)));
}

// sum_lanes of rows, four at a time; both arrays are padded to a multiple of four.
template <std::size_t kArms>
HWY_INLINE void sum_rows(const float (*lanes)[kSumLanes], float* sums) {
  const hn::FixedTag<float, 4> four;
  for (std::size_t arm = 0; arm < kArms; arm += 4) {
    const auto a = fold_to_four(lanes[arm]);
    const auto b = fold_to_four(lanes[arm + 1]);
    const auto c = fold_to_four(lanes[arm + 2]);
    const auto d = fold_to_four(lanes[arm + 3]);
    const auto ab = hn::Add(hn::ConcatLowerLower(four, b, a), hn::ConcatUpperUpper(four, b, a));
    const auto cd = hn::Add(hn::ConcatLowerLower(four, d, c), hn::ConcatUpperUpper(four, d, c));
    hn::Store(hn::Add(hn::ConcatEven(four, cd, ab), hn::ConcatOdd(four, cd, ab)), four, sums + arm);
  }
}
#endif

// Sink of the last hidden layer: multiplies it with W_L at once, and stores nothing.
template <std::size_t kSums>
struct MultiplyOut {
  const float* weights;
  float (*lanes)[kSumLanes];

  template <std::size_t kArms, std::size_t kVectors, bool kTail>
  HWY_INLINE void take(const Vector (&sums)[kArms][kVectors], std::size_t output,
                       std::size_t tail) {
    const Tag tag;
    Vector w[kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kVectors; ++r) {
      const float* from = weights + output + r * kLanes;
      w[r] = r + 1 == kVectors ? load_part<kTail>(from, tail) : hn::LoadU(tag, from);
    }
#pragma GCC unroll 16
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      if constexpr (kLanes == kSumLanes) {
        Vector sum = hn::Load(tag, lanes[arm]);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kVectors; ++r) {
          sum = hn::MulAdd(hn::Max(sums[arm][r], hn::Zero(tag)), w[r], sum);
        }
        hn::Store(sum, tag, lanes[arm]);
      } else {
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kVectors; ++r) {
          float* sum = lanes[arm] + (output + r * kLanes) % kSumLanes;
          hn::Store(hn::MulAdd(hn::Max(sums[arm][r], hn::Zero(tag)), w[r], hn::Load(tag, sum)), tag,
                    sum);
        }
      }
    }
  }
};

// Memory for the hidden layers between the first and the last; empty for depth 2.
struct DeepScratch {
  std::vector<float> units;   // [arm][padded width], as a layer writes them
  std::vector<float> packed;  // [unit][arm], as the next layer reads them
};

template <std::size_t kArms>
HWY_INLINE void predict_one(const NetworkShape& shape, const ArmTile& tile, const float* network,
                            const float* ahead, DeepScratch& scratch, float* results) {
  const float* x = tile.values.data();
  Layer layer = layer_of(shape, network, 1, tile.row, tile.columns, ahead);
  for (std::uint32_t number = 2; number < shape.depth; ++number) {
    StoreUnits<true> store{scratch.units.data(), shape.padded_width()};
    hidden_layer<kArms>(layer, x, store);
    for (std::size_t unit = 0; unit < shape.width; ++unit) {
      for (std::size_t arm = 0; arm < kArms; ++arm) {
        scratch.packed[unit * kArms + arm] = scratch.units[arm * shape.padded_width() + unit];
      }
    }
    x = scratch.packed.data();
    layer = layer_of(shape, network, number, 0, shape.width, layer.ahead);
  }
  alignas(64) float lanes[round_up_to_four(kArms)][kSumLanes] = {};
  const float* last = network + shape.layer_offset(shape.depth);
  MultiplyOut<kArms> multiply_out{last, lanes};
  hidden_layer<kArms>(layer, x, multiply_out);
  sum_rows<kArms>(lanes, results);
  if (shape.biases) {
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      results[arm] += last[shape.width];
    }
  }
}

template <std::size_t kArms>
void predict_tile(const NetworkShape& shape, const ArmTile& tile,
                  std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  DeepScratch scratch;
  if (shape.depth > 2) {
    scratch.units.resize(kArms * shape.padded_width());
    scratch.packed.resize(kArms * shape.width);
  }
  // Small networks are stored one after the other and read in rows: prefetching the rows of the
  // next one hides the latency of memory. Rows of large networks are long enough for the hardware.
  const bool small = shape.parameter_count() <= kPrefetchedParameters;
  alignas(64) float results[round_up_to_four(kArms)];
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const float* network = targets[i].network;
    const float* next = targets[std::min(i + 1, targets.size() - 1)].network;
    const float* ahead = small ? next : network + std::size_t{tile.row} * shape.width;
    predict_one<kArms>(shape, tile, network, ahead, scratch, results);
    float* to = out + tile.first_arm * stride + targets[i].column;
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      to[arm * stride] = results[arm];
    }
  }
}

template <std::size_t kArms>
void choose_tile_size(const NetworkShape& shape, const ArmTile& tile,
                      std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  if (tile.arms == kArms) {
    predict_tile<kArms>(shape, tile, targets, out, stride);
  } else if constexpr (kArms < kMaxTileArms) {
    choose_tile_size<kArms + 1>(shape, tile, targets, out, stride);
  }
}

void Predict(const NetworkShape& shape, std::span<const ArmTile> tiles,
             std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  // A few networks at a time, so that they are still in the cache for the next tile.
  const std::size_t at_once =
      tiles.size() == 1 ? targets.size()
                        : std::max<std::size_t>(1, kCachedParameters / shape.parameter_count());
  for (std::size_t begin = 0; begin < targets.size(); begin += at_once) {
    const auto some = targets.subspan(begin, std::min(at_once, targets.size() - begin));
    for (const ArmTile& tile : tiles) {
      choose_tile_size<1>(shape, tile, some, out, stride);
    }
  }
}

std::size_t MaxTileArms() { return kMaxTileArms; }

float Forward(const NetworkShape& shape, const float* network, std::span<const float> x,
              std::uint32_t row, float* activations) {
  return forward_one(shape, network, x, row, network + std::size_t{row} * shape.width, activations);
}

void FirstLayer(const NetworkShape& shape, const float* network, std::span<const float> x,
                std::uint32_t row, float* sums) {
  std::fill(sums, sums + shape.padded_width(), 0.0F);
  Layer layer = layer_of(shape, network, 1, row, x.size(), network);
  StoreUnits<false> store{sums, 0};
  hidden_layer<1>(layer, x.data(), store);
}

float Dot(const float* a, const float* b, std::size_t count) { return dot_product(a, b, count); }

#if HWY_TARGET == HWY_SCALAR
void FirstWords(PhiloxKey key, std::span<const std::uint32_t> members, std::uint32_t* words) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    words[i] = philox_4x32_10({0, 0, members[i], 0}, key)[0];
  }
}
#else
// One Philox per 64-bit lane. Only the lower halves count, since a product reads nothing else.
void FirstWords(PhiloxKey key, std::span<const std::uint32_t> members, std::uint32_t* words) {
  const hn::ScalableTag<std::uint64_t> wide;
  const hn::Repartition<std::uint32_t, decltype(wide)> narrow;
  const std::size_t lanes = hn::Lanes(wide);
  const auto multiply = [&](auto a, std::uint32_t factor) {
    return hn::MulEven(hn::BitCast(narrow, a), hn::Set(narrow, factor));
  };
  alignas(64) std::uint64_t room[HWY_MAX_BYTES / sizeof(std::uint64_t)] = {};
  for (std::size_t begin = 0; begin < members.size(); begin += lanes) {
    const std::size_t count = std::min(lanes, members.size() - begin);
    std::copy_n(members.data() + begin, count, room);
    auto c0 = hn::Zero(wide);
    auto c1 = hn::Zero(wide);
    auto c2 = hn::Load(wide, room);
    auto c3 = hn::Zero(wide);
    PhiloxKey round_key = key;
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto left = multiply(c0, kPhiloxFactors[0]);
      const auto right = multiply(c2, kPhiloxFactors[1]);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(right), c1), hn::Set(wide, round_key[0]));
      c1 = right;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(left), c3), hn::Set(wide, round_key[1]));
      c3 = left;
      round_key[0] += kPhiloxKeySteps[0];
      round_key[1] += kPhiloxKeySteps[1];
    }
    hn::Store(c0, wide, room);
    for (std::size_t i = 0; i < count; ++i) {
      words[begin + i] = static_cast<std::uint32_t>(room[i]);
    }
  }
}
#endif

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "mcnb/base/error.h"

namespace mcnb::kernels {

HWY_EXPORT(Predict);
HWY_EXPORT(MaxTileArms);
HWY_EXPORT(Forward);
HWY_EXPORT(FirstLayer);
HWY_EXPORT(Dot);
HWY_EXPORT(FirstWords);

namespace {

struct SimdTarget {
  const char* name;
  std::int64_t bit;
};
constexpr SimdTarget kSimdTargets[] = {
    {"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}, {"plain", HWY_SCALAR}};

// The instruction sets that the machine can run, read before one of them is forced. Only
// `limit_simd_targets` changes it.
std::int64_t& supported_targets() {
  static std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  return supported;
}

// Makes Highway choose among these instruction sets.
void dispatch_to(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(targets);
}

Error unknown_target(const std::string& name) {
  return {ErrorKind::kUsage,
          fmt::format("SIMD target: expected one of {} on this machine, got \"{}\"",
                      fmt::join(simd_targets(), ", "), name)};
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const SimdTarget& target : kSimdTargets) {
    if ((supported_targets() & target.bit) != 0) {
      names.emplace_back(target.name);
    }
  }
  return names;
}

std::string simd_target() {
  supported_targets();
  const std::int64_t allowed = hwy::SupportedTargets();
  for (const SimdTarget& target : kSimdTargets) {
    if ((allowed & HWY_TARGETS & target.bit) != 0) {
      return target.name;
    }
  }
  return "plain";
}

void use_simd_target(const std::string& name) {
  for (const SimdTarget& target : kSimdTargets) {
    if (name == target.name && (supported_targets() & target.bit) != 0) {
      dispatch_to(target.bit);
      return;
    }
  }
  throw unknown_target(name);
}

void limit_simd_targets(const std::string& best) {
  std::int64_t allowed = supported_targets();
  for (const SimdTarget& target : kSimdTargets) {
    if (best == target.name) {
      supported_targets() = allowed;
      dispatch_to(allowed);
      return;
    }
    allowed &= ~target.bit;
  }
  throw unknown_target(best);
}

void use_simd_settings(const char* limit, const char* target) {
  struct Setting {
    const char* variable;
    const char* value;
    void (*apply)(const std::string& target);
  };
  for (const Setting& setting : {Setting{"MCNB_SIMD_LIMIT", limit, limit_simd_targets},
                                 Setting{"MCNB_SIMD", target, use_simd_target}}) {
    if (setting.value == nullptr || *setting.value == '\0') {
      continue;
    }
    within(setting.variable, [&] { setting.apply(setting.value); });
  }
}

std::size_t max_tile_arms() { return HWY_DYNAMIC_DISPATCH(MaxTileArms)(); }

void predict(const NetworkShape& shape, std::span<const ArmTile> tiles,
             std::span<const PredictTarget> targets, float* out, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(Predict)(shape, tiles, targets, out, stride);
}

float forward(const NetworkShape& shape, const float* network, std::span<const float> x,
              std::uint32_t row, float* activations) {
  return HWY_DYNAMIC_DISPATCH(Forward)(shape, network, x, row, activations);
}

void first_layer(const NetworkShape& shape, const float* network, std::span<const float> x,
                 std::uint32_t row, float* sums) {
  HWY_DYNAMIC_DISPATCH(FirstLayer)(shape, network, x, row, sums);
}

float dot(const float* a, const float* b, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(Dot)(a, b, count);
}

void first_words(const RngFamily& family, std::span<const std::uint32_t> members,
                 std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(FirstWords)(family.key(), members, words);
}

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
