#include "bench/spread_users.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/limits.h"

namespace mcnb::bench {
namespace {

constexpr int kEventsAtFirst = 5;  // events of every user, as in the PyTorch script

}  // namespace

std::vector<float> unit_vector(Rng& rng) {
  std::vector<float> x(kFeatures);
  double square = 0.0;
  for (float& value : x) {
    value = static_cast<float>(rng.normal());
    square += static_cast<double>(value) * value;
  }
  for (float& value : x) {
    value = static_cast<float>(value / std::sqrt(square));
  }
  return x;
}

// W_1 and W_2 are scaled alike, so that steps stay stable.
void spread_users(NetworkPool& pool, double deviation, std::uint64_t groups) {
  const NetworkShape& shape = pool.shape();
  const std::size_t last = shape.layer_offset(2);
  const double scale = std::sqrt(deviation * std::sqrt(static_cast<double>(kWidth)));
  std::vector<std::vector<float>> bases;
  for (std::uint64_t i = 0; i < 64; ++i) {
    bases.push_back(random_network(shape, Initialisation::kPaper, 1, i));
  }
  Rng rng(1, Stream::kBenchmark);
  std::vector<float> network(shape.parameter_count());
  for (std::size_t user = 0; user < pool.user_count(); ++user) {
    const auto one = static_cast<std::size_t>(rng.below(groups > 0 ? groups : bases.size()));
    const auto other = groups > 0 ? one : static_cast<std::size_t>(rng.below(bases.size()));
    const std::vector<float>& first = bases[one];
    const std::vector<float>& second = bases[other];
    const double stretch = 0.8 + 0.4 * rng.uniform();
    for (std::size_t i = 0; i < network.size(); ++i) {
      const double value = i < last ? first[i] / stretch : second[i] * stretch;
      network[i] = static_cast<float>(scale * value);
    }
    pool.set_parameters(UserId{static_cast<std::uint32_t>(user)}, network);
  }
}

void fill_users(Mcnb& policy, Rng& rng) {
  for (std::uint64_t user = 0; user < policy.user_count(); ++user) {
    for (int event = 0; event < kEventsAtFirst; ++event) {
      const std::vector<float> x = unit_vector(rng);
      policy.start(UserId{static_cast<std::uint32_t>(user)}, {{x}, rng.chance(0.5) ? 1.0F : 0.0F});
    }
  }
}

bool have_room_for(std::uint64_t users) {
  const double bytes = 1.6 * static_cast<double>(users) * (kFeatures + 1) * kWidth * 4.0;
  const auto available = static_cast<double>(available_memory());
  if (bytes > available) {
    fmt::print(stderr, "{} users: left out, needs {:.1f} GiB, {:.1f} GiB are free\n", users,
               bytes / 0x1p30, available / 0x1p30);
  }
  return bytes <= available;
}

}  // namespace mcnb::bench
