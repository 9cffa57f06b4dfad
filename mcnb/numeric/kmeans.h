#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/thread_pool.h"

namespace mcnb {

struct KMeans {
  std::vector<std::uint32_t> group;  // by point
  std::vector<float> centres;        // by group, `dimension` numbers each
  std::size_t iterations = 0;
  double spread = 0.0;  // sum over points of the squared distance to their centre
};

// Groups points (one after the other, `dimension` numbers each) into at most `groups` non-empty
// groups by Lloyd's iterations from k-means++ starts. The start with the least spread wins; ties go
// to the first. Equal seeds give equal groups, with any number of threads or none. Throws Error:
// kInput for numbers that are not finite, kUsage for no groups or more groups than points.
KMeans k_means(std::span<const float> points, std::size_t dimension, std::size_t groups,
               std::uint64_t seed, std::size_t most_iterations = 100, std::size_t starts = 1,
               ThreadPool* threads = nullptr);

}  // namespace mcnb
