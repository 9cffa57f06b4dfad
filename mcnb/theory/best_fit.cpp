#include "mcnb/theory/best_fit.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <functional>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Eigen::ArrayXf;
using Eigen::Index;
using Eigen::Map;

constexpr std::size_t kPieces = 16;      // of the contexts: sums do not depend on the threads
constexpr double kEnough = 1e-5;         // relative gain of a step that counts as one
constexpr std::uint64_t kPatience = 20;  // steps without one
constexpr int kMostHalvings = 40;
constexpr double kGrowth = 1.5;

struct Loss {
  double value = 0.0;
  std::vector<float> gradient;  // empty where nobody asked
};

// gradient += error * (the gradient of f).
void add_gradient(const NetworkShape& shape, const GradientFactors& factors, float error,
                  std::vector<float>& gradient) {
  const auto width = static_cast<Index>(shape.width);
  const std::size_t padded = shape.padded_width();
  const auto signal = [&](std::uint32_t layer) {  // b_layer
    return Map<const ArrayXf>(factors.signals.data() + (layer - 1) * padded, width);
  };
  const auto add_rows = [&](std::uint32_t layer, std::size_t first, std::span<const float> inputs) {
    float* rows = gradient.data() + shape.layer_offset(layer);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != 0.0F) {
        Map<ArrayXf>(rows + (first + i) * shape.width, width) += error * inputs[i] * signal(layer);
      }
    }
  };
  const auto activations = [&](std::uint32_t layer) {  // h_layer
    return std::span(factors.activations).subspan((layer - 1) * padded, shape.width);
  };
  add_rows(1, factors.features.offset, factors.features.values);
  for (std::uint32_t layer = 2; layer < shape.depth; ++layer) {
    add_rows(layer, 0, activations(layer - 1));
  }
  Map<ArrayXf>(gradient.data() + shape.layer_offset(shape.depth), width) +=
      error * Map<const ArrayXf>(activations(shape.depth - 1).data(), width);
}

Loss find_loss(const Contexts& contexts, const NetworkShape& shape, std::span<const float> network,
               bool with_gradient, ThreadPool& threads) {
  std::vector<Loss> pieces(kPieces);
  threads.parallel_for(kPieces, 1, [&](std::size_t begin, std::size_t end) {
    GradientFactors factors;
    for (std::size_t piece = begin; piece < end; ++piece) {
      Loss& own = pieces[piece];
      own.gradient.assign(with_gradient ? shape.parameter_count() : 0, 0.0F);
      for (std::size_t i = contexts.size() * piece / kPieces;
           i < contexts.size() * (piece + 1) / kPieces; ++i) {
        find_gradient(shape, network, contexts.features(i), factors);
        const double error = static_cast<double>(factors.value) - contexts.rewards[i];
        own.value += 0.5 * error * error;
        if (with_gradient) {
          add_gradient(shape, factors, static_cast<float>(error), own.gradient);
        }
      }
    }
  });
  Loss sum = std::move(pieces[0]);
  for (std::size_t piece = 1; piece < kPieces; ++piece) {
    sum.value += pieces[piece].value;
    std::ranges::transform(sum.gradient, pieces[piece].gradient, sum.gradient.begin(),
                           std::plus<>());
  }
  return sum;
}

double distance_between(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

// The nearest network inside the ball.
void project(std::span<const float> centre, double radius, std::vector<float>& network) {
  const double distance = distance_between(centre, network);
  if (distance > radius) {
    const auto factor = static_cast<float>(radius / distance);
    for (std::size_t i = 0; i < network.size(); ++i) {
      network[i] = centre[i] + factor * (network[i] - centre[i]);
    }
  }
}

}  // namespace

double total_loss(const Contexts& contexts, const NetworkShape& shape,
                  std::span<const float> network, ThreadPool& threads) {
  return find_loss(contexts, shape, network, false, threads).value;
}

BestFit find_best_fit(const Contexts& contexts, const NetworkShape& shape,
                      std::span<const float> centre, std::span<const float> start, double radius,
                      std::uint64_t most_steps, ThreadPool& threads) {
  check(!shape.biases && centre.size() == shape.parameter_count() && start.size() == centre.size(),
        "the networks have this shape");
  check(radius >= 0.0 && contexts.size() > 0, "there is a ball, and contexts");
  BestFit best{.network = {start.begin(), start.end()}};
  Loss loss = find_loss(contexts, shape, best.network, true, threads);
  best.loss = loss.value;
  double rate = 1.0 / static_cast<double>(contexts.size());
  std::uint64_t idle = 0;
  std::vector<float> trial(centre.size());
  while (best.steps < most_steps && idle < kPatience) {
    bool found = false;
    for (int halving = 0; halving < kMostHalvings && !found; ++halving) {
      for (std::size_t i = 0; i < trial.size(); ++i) {
        trial[i] = best.network[i] - static_cast<float>(rate) * loss.gradient[i];
      }
      project(centre, radius, trial);
      found = total_loss(contexts, shape, trial, threads) < best.loss;
      rate *= found ? kGrowth : 0.5;
    }
    if (!found) {
      break;  // no step along the gradient helps
    }
    best.network.swap(trial);
    loss = find_loss(contexts, shape, best.network, true, threads);
    idle = loss.value < (1.0 - kEnough) * best.loss ? 0 : idle + 1;
    best.loss = loss.value;
    ++best.steps;
  }
  best.converged = best.steps < most_steps;
  best.distance = distance_between(centre, best.network);
  return best;
}

}  // namespace mcnb
