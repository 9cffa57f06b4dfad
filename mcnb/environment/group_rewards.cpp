#include "mcnb/environment/group_rewards.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// Second indices of Stream::kWorld; synthetic.cpp uses those below 10.
constexpr std::uint32_t kDirections = 10;
constexpr std::uint32_t kNetworks = 11;
constexpr std::uint32_t kTypicalItems = 12;

// Functions of the projection on one direction per topic and group.
class ProjectionRewards final : public GroupRewards {
 public:
  ProjectionRewards(const SyntheticOptions& options, std::uint64_t seed)
      : options_(options), directions_(options.topics * options.clusters * options.features) {
    for (std::size_t i = 0; i < options.topics * options.clusters; ++i) {
      Rng rng(seed, Stream::kWorld, i, kDirections);
      draw_unit_vector(rng, std::span(directions_).subspan(i * options.features, options.features));
    }
  }

  void find(std::size_t topic, std::span<const float> features,
            std::span<double> values) const override {
    const std::span<const float> directions(directions_);
    for (std::size_t group = 0; group < values.size(); ++group) {
      const std::size_t row = topic * options_.clusters + group;
      values[group] =
          value(dot(directions.subspan(row * options_.features, options_.features), features));
    }
  }

 private:
  double value(double projection) const {
    switch (options_.reward) {
      case RewardShape::kLinear:
        return std::clamp((1.0 + projection) / 2.0, 0.0, 1.0);
      case RewardShape::kCosine:
        return (1.0 + std::cos(options_.frequency * projection)) / 2.0;
      case RewardShape::kQuadratic:
        return std::min(1.0, static_cast<double>(options_.features) * projection * projection / 4);
      case RewardShape::kNetwork:
        break;
    }
    check(false, "networks are not functions of a projection");
    return 0.0;
  }

  SyntheticOptions options_;
  std::vector<float> directions_;
};

// z / sqrt(1 + z^2), shifted into (0, 1), where z is the output of a network with one hidden layer
// and biases, scaled to mean 0 and deviation kSteepness over typical items.
class NetworkRewards final : public GroupRewards {
 public:
  NetworkRewards(const SyntheticOptions& options, std::uint64_t seed, const DrawFeatures& draw)
      : groups_(options.clusters), inputs_(options.features) {
    for (std::size_t i = 0; i < options.topics * options.clusters; ++i) {
      networks_.push_back(random(Rng(seed, Stream::kWorld, i, kNetworks)));
      scale(networks_.back(), Rng(seed, Stream::kWorld, i, kTypicalItems), i / groups_, draw);
    }
  }

  void find(std::size_t topic, std::span<const float> features,
            std::span<double> values) const override {
    for (std::size_t group = 0; group < values.size(); ++group) {
      const Network& network = networks_[topic * groups_ + group];
      const double z = (output(network, features) - network.mean) * network.scale;
      values[group] = (1.0 + z / std::sqrt(1.0 + z * z)) / 2.0;
    }
  }

 private:
  static constexpr std::size_t kWidth = 16;
  static constexpr std::size_t kTypicalCount = 256;
  static constexpr double kSteepness = 1.5;

  struct Network {
    std::vector<float> hidden;   // kWidth rows
    std::vector<double> biases;  // of the hidden units
    std::vector<double> outgoing;
    double mean = 0.0;
    double scale = 1.0;
  };

  Network random(Rng rng) const {
    Network network;
    network.hidden.resize(kWidth * inputs_);
    for (std::size_t unit = 0; unit < kWidth; ++unit) {
      draw_unit_vector(rng, std::span(network.hidden).subspan(unit * inputs_, inputs_));
      // About as large as the projection of a random item, so that every unit's kink is among the
      // items.
      network.biases.push_back(0.5 * rng.normal() / std::sqrt(static_cast<double>(inputs_)));
      network.outgoing.push_back(rng.normal());
    }
    return network;
  }

  void scale(Network& network, Rng rng, std::size_t topic, const DrawFeatures& draw) const {
    std::vector<float> features(inputs_);
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < kTypicalCount; ++i) {
      draw(rng, topic, features);
      const double value = output(network, features);
      sum += value;
      squares += value * value;
    }
    constexpr double kCount = kTypicalCount;
    network.mean = sum / kCount;
    const double variance = std::max(1e-12, squares / kCount - network.mean * network.mean);
    network.scale = kSteepness / std::sqrt(variance);
  }

  double output(const Network& network, std::span<const float> features) const {
    const std::span<const float> hidden(network.hidden);
    double sum = 0.0;
    for (std::size_t unit = 0; unit < kWidth; ++unit) {
      const double z = dot(hidden.subspan(unit * inputs_, inputs_), features);
      sum += network.outgoing[unit] * std::max(0.0, z + network.biases[unit]);
    }
    return sum;
  }

  std::size_t groups_;
  std::size_t inputs_;
  std::vector<Network> networks_;
};

}  // namespace

std::unique_ptr<GroupRewards> make_group_rewards(const SyntheticOptions& options,
                                                 std::uint64_t seed, const DrawFeatures& draw) {
  if (options.reward == RewardShape::kNetwork) {
    return std::make_unique<NetworkRewards>(options, seed, draw);
  }
  return std::make_unique<ProjectionRewards>(options, seed);
}

void draw_unit_vector(Rng& rng, std::span<float> vector) {
  for (float& value : vector) {
    value = static_cast<float>(rng.normal());
  }
  make_unit_length(vector);
}

void make_unit_length(std::span<float> vector) {
  const double length = std::sqrt(dot(vector, vector));
  for (float& value : vector) {
    value = static_cast<float>(value / length);
  }
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

}  // namespace mcnb
