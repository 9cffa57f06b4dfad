#include "mcnb/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr double kTwoToMinus53 = 0x1p-53;

// Natural logarithm made of basic IEEE operations, since the C library's result differs in the last
// bit between machines. Requires a positive number. ln x = e ln 2 + 2 artanh((f - 1) / (f + 1)).
double portable_log(double x) {
  int exponent = -1023;
  if (x < 0x1p-1022) {  // subnormal: the leading one is not implied
    x *= 0x1p54;
    exponent -= 54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52);
  double fraction = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (fraction > 1.4142135623730951) {
    fraction *= 0.5;
    ++exponent;
  }
  const double s = (fraction - 1.0) / (fraction + 1.0);  // |s| < 0.172
  const double s2 = s * s;
  double series = 0.0;
  for (int k = 21; k >= 1; k -= 2) {
    series = series * s2 + 1.0 / k;
  }
  return exponent * 0.6931471805599453 + 2.0 * s * series;
}

template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double value = 0.0;
  for (std::size_t i = N; i-- > 0;) {
    value = value * x + coefficients[i];
  }
  return value;
}

// Numerators and denominators of Wichura's rational approximations (algorithm AS 241), lowest
// power first, accurate to about 1e-16.
constexpr std::array kCentreTop{3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array kCentreBottom{1.0,
                                   4.2313330701600911252e+1,
                                   6.8718700749205790830e+2,
                                   5.3941960214247511077e+3,
                                   2.1213794301586595867e+4,
                                   3.9307895800092710610e+4,
                                   2.8729085735721942674e+4,
                                   5.2264952788528545610e+3};
constexpr std::array kMiddleTop{1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array kMiddleBottom{1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
constexpr std::array kFarTop{6.65790464350110377720e0,  5.46378491116411436990e0,
                             1.78482653991729133580e0,  2.96560571828504891230e-1,
                             2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array kFarBottom{1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};

}  // namespace

PhiloxCounter philox_4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t left = std::uint64_t{kPhiloxFactors[0]} * counter[0];
    const std::uint64_t right = std::uint64_t{kPhiloxFactors[1]} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(left)};
    key[0] += kPhiloxKeySteps[0];
    key[1] += kPhiloxKeySteps[1];
  }
  return counter;
}

Rng::Rng(std::uint64_t seed, Stream stream, std::uint64_t index, std::uint32_t second_index)
    : counter_{0, second_index, static_cast<std::uint32_t>(index),
               static_cast<std::uint32_t>(index >> 32)} {
  // A first pass of the cipher mixes the stream into the key, so that all 128 bits of the counter
  // are left for the indices and the position in the sequence.
  const PhiloxCounter mixed =
      philox_4x32_10({static_cast<std::uint32_t>(stream), 0, 0, 0},
                     {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  key_ = {mixed[0], mixed[1]};
}

std::uint32_t Rng::bits32() {
  if (used_ == 4) {
    block_ = philox_4x32_10(counter_, key_);
    ++counter_[0];
    check(counter_[0] != 0, "one address gives at most 2^34 numbers");
    used_ = 0;
  }
  return block_[used_++];
}

std::uint64_t Rng::bits64() {
  const std::uint64_t high = bits32();
  return high << 32 | bits32();
}

double Rng::uniform() { return static_cast<double>(bits64() >> 11) * kTwoToMinus53; }

double Rng::normal() {
  // The result is the middle of one of 2^52 equal parts of the unit interval, so never 0 or 1.
  return normal_quantile((static_cast<double>(bits64() >> 12) + 0.5) * (2 * kTwoToMinus53));
}

std::uint64_t Rng::below(std::uint64_t bound) {
  check(bound > 0, "a bounded integer has a positive bound");
  // Lemire's method: a multiplication, and rejection of the few values that would favour some
  // results.
  if (bound <= 0xffffffffULL) {
    const auto small = static_cast<std::uint32_t>(bound);
    std::uint64_t product = std::uint64_t{bits32()} * small;
    // The slow division is needed only if a rejection is possible at all, which is rare.
    if (static_cast<std::uint32_t>(product) < small) {
      const std::uint32_t threshold = (0U - small) % small;
      while (static_cast<std::uint32_t>(product) < threshold) {
        product = std::uint64_t{bits32()} * small;
      }
    }
    return product >> 32;
  }
  const std::uint64_t threshold = (0ULL - bound) % bound;
  for (;;) {
    const std::uint64_t draw = bits64();
    if (draw >= threshold) {
      return draw % bound;
    }
  }
}

std::vector<std::uint64_t> Rng::sample_without_replacement(std::uint64_t population,
                                                           std::size_t count) {
  check(count <= population, "a sample without replacement is no larger than its population");
  std::vector<std::uint64_t> sample(count);
  if (population <= 4 * static_cast<std::uint64_t>(count)) {
    std::vector<std::uint64_t> deck(static_cast<std::size_t>(population));
    for (std::size_t i = 0; i < deck.size(); ++i) {
      deck[i] = i;
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(deck[i], deck[i + static_cast<std::size_t>(below(population - i))]);
    }
    std::copy_n(deck.begin(), count, sample.begin());
    return sample;
  }
  // Fisher and Yates' shuffle of a deck that stores only the cards that have moved.
  std::unordered_map<std::uint64_t, std::uint64_t> displaced;
  displaced.reserve(2 * count);
  const auto card = [&](std::uint64_t position) {
    const auto found = displaced.find(position);
    return found == displaced.end() ? position : found->second;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t position = i + below(population - i);
    sample[i] = card(position);
    displaced[position] = card(i);
  }
  return sample;
}

double normal_quantile(double probability) {
  const double offset = probability - 0.5;
  if (std::abs(offset) <= 0.425) {
    const double r = 0.180625 - offset * offset;
    return offset * polynomial(kCentreTop, r) / polynomial(kCentreBottom, r);
  }
  const double r = std::sqrt(-portable_log(std::min(probability, 1.0 - probability)));
  const double size = r <= 5.0
                          ? polynomial(kMiddleTop, r - 1.6) / polynomial(kMiddleBottom, r - 1.6)
                          : polynomial(kFarTop, r - 5.0) / polynomial(kFarBottom, r - 5.0);
  return offset < 0.0 ? -size : size;
}

}  // namespace mcnb
