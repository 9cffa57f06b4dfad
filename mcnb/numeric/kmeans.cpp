#include "mcnb/numeric/kmeans.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

double distance_squared(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double step = static_cast<double>(a[i]) - b[i];
    sum += step * step;
  }
  return sum;
}

// Each next centre is a point drawn in proportion to its squared distance from the centres so far.
std::vector<float> spread_out_centres(std::span<const float> points, std::size_t dimension,
                                      std::size_t groups, Rng& rng) {
  const std::size_t count = points.size() / dimension;
  const auto point = [&](std::size_t i) { return points.subspan(i * dimension, dimension); };
  std::vector<float> centres;
  std::vector<double> nearest(count, std::numeric_limits<double>::infinity());
  std::size_t chosen = static_cast<std::size_t>(rng.below(count));
  for (std::size_t group = 0; group < groups; ++group) {
    centres.insert(centres.end(), point(chosen).begin(), point(chosen).end());
    double total = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      nearest[i] = std::min(nearest[i], distance_squared(point(i), point(chosen)));
      total += nearest[i];
    }
    if (total == 0.0) {
      break;  // fewer different points than groups
    }
    double left = rng.uniform() * total;
    for (chosen = 0; chosen + 1 < count && left >= nearest[chosen]; ++chosen) {
      left -= nearest[chosen];
    }
  }
  return centres;
}

// Groups may lose all their points on the way: those go, and the others close up.
void drop_empty_groups(std::size_t dimension, KMeans& result) {
  const std::size_t groups = result.centres.size() / dimension;
  std::vector<std::uint32_t> number(groups, 0);
  for (const std::uint32_t group : result.group) {
    number[group] = 1;
  }
  std::vector<float> centres;
  std::uint32_t kept = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    if (number[group] == 1) {
      const auto centre = std::span(result.centres).subspan(group * dimension, dimension);
      centres.insert(centres.end(), centre.begin(), centre.end());
      number[group] = kept++;
    }
  }
  result.centres = std::move(centres);
  for (std::uint32_t& group : result.group) {
    group = number[group];
  }
}

}  // namespace

KMeans k_means(std::span<const float> points, std::size_t dimension, std::size_t groups,
               std::uint64_t seed, std::size_t most_iterations) {
  check(dimension > 0 && points.size() % dimension == 0, "points are whole");
  check(most_iterations > 0, "at least one iteration puts every point into a group");
  const std::size_t count = points.size() / dimension;
  if (groups == 0 || groups > count) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("k-means: expected 1 to {} groups of {} points, got {}", count, count, groups));
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i])) {
      throw Error(ErrorKind::kInput, fmt::format("k-means: point {}, number {} is {}, expected a "
                                                 "finite number",
                                                 i / dimension, i % dimension, points[i]));
    }
  }
  Rng rng(seed, Stream::kPreClusters);
  KMeans result;
  result.centres = spread_out_centres(points, dimension, groups, rng);
  groups = result.centres.size() / dimension;
  result.group.assign(count, std::numeric_limits<std::uint32_t>::max());
  for (; result.iterations < most_iterations; ++result.iterations) {
    bool changed = false;
    result.spread = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto point = points.subspan(i * dimension, dimension);
      double nearest = std::numeric_limits<double>::infinity();
      std::uint32_t best = 0;
      for (std::uint32_t group = 0; group < groups; ++group) {
        const double distance = distance_squared(
            point, std::span(result.centres).subspan(group * dimension, dimension));
        if (distance < nearest) {
          nearest = distance;
          best = group;
        }
      }
      changed = changed || best != result.group[i];
      result.group[i] = best;
      result.spread += nearest;
    }
    if (!changed) {
      break;
    }
    std::vector<double> sums(groups * dimension);
    std::vector<std::size_t> sizes(groups);
    for (std::size_t i = 0; i < count; ++i) {
      ++sizes[result.group[i]];
      for (std::size_t j = 0; j < dimension; ++j) {
        sums[result.group[i] * dimension + j] += points[i * dimension + j];
      }
    }
    // A group that lost all its points keeps its old centre: others may come.
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t j = 0; sizes[group] > 0 && j < dimension; ++j) {
        result.centres[group * dimension + j] =
            static_cast<float>(sums[group * dimension + j] / static_cast<double>(sizes[group]));
      }
    }
  }
  drop_empty_groups(dimension, result);
  return result;
}

}  // namespace mcnb
