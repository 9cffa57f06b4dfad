#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mcnb {

/// Philox 4x32-10 (Salmon et al., SC'11): a keyed bijection of 128-bit counters whose images look
/// random. It has no state, so it gives the same numbers in any order and on any number of threads.
using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;
PhiloxCounter philox_4x32_10(PhiloxCounter counter, PhiloxKey key);
inline constexpr int kPhiloxRounds = 10;
inline constexpr std::array<std::uint32_t, 2> kPhiloxFactors{0xD2511F53, 0xCD9E8D57};
inline constexpr PhiloxKey kPhiloxKeySteps{0x9E3779B9, 0xBB67AE85};

/// What random numbers are used for. Streams of one seed are independent of each other. Every
/// result depends on these values: append new ones, never renumber.
enum class Stream : std::uint32_t {
  kTest = 0,
  kWeights = 1,
  kTrainingOrder = 2,
  kMetaDraw = 3,
  kReservoir = 4,
  kEnvironment = 5,
  kWorld = 6,
  kPolicy = 7,
  kBenchmark = 8,
  kMetaMembers = 9,
  kNoise = 10,
  kRounds = 11,
  kStartData = 12,
  kPreClusters = 13,
  kWalkOrder = 14,
  kUserGraph = 20,
  kLocbSeeds = 30,
  kThompson = 40,
  kEpsilonGreedy = 41,
  kFitUsers = 50,
  kBodyWeights = 51,
  kBodySamples = 52,
  kSingularVectors = 60,
  kHeldOut = 61,
  kNonLinks = 62,
  kServedAction = 70,
};

/// A sequence of random numbers, named by its address: seed, stream, index and optional second
/// index. Two generators with the same address give the same sequence on every machine (only IEEE
/// additions, multiplications, divisions and square roots are used); different addresses give
/// independent sequences. Generators are cheap to make; threads must not share one.
class Rng {
 public:
  Rng(std::uint64_t seed, Stream stream, std::uint64_t index = 0, std::uint32_t second_index = 0);

  std::uint32_t bits32();
  std::uint64_t bits64();

  /// Uniform on [0, 1), a multiple of 2^-53.
  double uniform();

  /// Standard normal, by inversion; takes one 64-bit draw.
  double normal();

  /// Uniform on {0, ..., bound - 1}, without bias. Requires bound > 0.
  std::uint64_t below(std::uint64_t bound);

  /// True with probability p.
  bool chance(double p) { return uniform() < p; }

  /// Shuffles the values into a uniformly random order (Fisher and Yates).
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      std::swap(values[i], values[i + static_cast<std::size_t>(below(values.size() - i))]);
    }
  }

  /// Draws `count` distinct numbers of {0, ..., population - 1} in random order; every ordered
  /// choice is equally likely. Time and memory are O(count), for any population. Requires count <=
  /// population.
  std::vector<std::uint64_t> sample_without_replacement(std::uint64_t population,
                                                        std::size_t count);

 private:
  friend class RngFamily;
  Rng(PhiloxKey key, std::uint64_t index)
      : key_(key),
        counter_{0, 0, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)} {
  }

  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  unsigned used_ = 4;  ///< words of block_ already given out
};

/// Many generators below one address, each as cheap to make as a copy. For addresses of three
/// numbers, such as the draw of one member for one arm of one round.
class RngFamily {
 public:
  /// Takes two numbers from `parent`; its generators lie below the address of `parent`.
  explicit RngFamily(Rng parent) {
    const std::uint32_t first = parent.bits32();
    key_ = {first, parent.bits32()};
  }
  Rng member(std::uint64_t index) const { return {key_, index}; }
  const PhiloxKey& key() const { return key_; }

 private:
  PhiloxKey key_;
};

/// The x with P(N(0,1) <= x) = probability, for a probability strictly between 0 and 1.
double normal_quantile(double probability);

}  // namespace mcnb
