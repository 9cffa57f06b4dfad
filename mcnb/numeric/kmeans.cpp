#include "mcnb/numeric/kmeans.h"

#include <fmt/core.h>

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kGrain = 512;  // points per piece of work

// Points stored coordinate by coordinate, as doubles, so that distances of eight neighbouring
// points are computed at once. A distance is summed in the order of the coordinates, so it has the
// same bits wherever it is computed.
class Columns {
 public:
  explicit Columns(std::size_t dimension) : dimension_(dimension) {}

  Columns(std::span<const float> points, std::size_t dimension) : dimension_(dimension) {
    resize(points.size() / dimension);
    for (std::size_t i = 0; i < count_; ++i) {
      set(i, points.subspan(i * dimension, dimension));
    }
  }

  void resize(std::size_t count) {
    count_ = count;
    stride_ = (count + kBlock - 1) / kBlock * kBlock;
    values_.assign(stride_ * dimension_, kInfinity);  // padding is far from everything
  }

  void set(std::size_t i, std::span<const float> point) {
    for (std::size_t j = 0; j < dimension_; ++j) {
      values_[j * stride_ + i] = static_cast<double>(point[j]);
    }
  }

  std::size_t count() const { return count_; }

  // Calls take(i, squared distance) for every point from `begin`, a multiple of kBlock, to `end`.
  template <class Take>
  void distances(std::span<const float> from, std::size_t begin, std::size_t end,
                 const Take& take) const {
    for (std::size_t block = begin; block < end; block += kBlock) {
      Eigen::Array<double, kBlock, 1> sum = Eigen::Array<double, kBlock, 1>::Zero();
      for (std::size_t j = 0; j < dimension_; ++j) {
        const Eigen::Map<const Eigen::Array<double, kBlock, 1>> column(values_.data() +
                                                                       j * stride_ + block);
        sum += (column - static_cast<double>(from[j])).square();
      }
      const std::size_t stop = std::min(end, block + kBlock);
      for (std::size_t i = block; i < stop; ++i) {
        take(i, sum[static_cast<Eigen::Index>(i - block)]);
      }
    }
  }

  static constexpr std::size_t kBlock = 8;

 private:
  std::size_t dimension_;
  std::size_t count_ = 0;
  std::size_t stride_ = 0;
  std::vector<double> values_;
};

// Runs body(begin, end) over pieces of [0, count); each but the last has kGrain elements.
template <class Body>
void for_pieces(std::size_t count, ThreadPool* threads, const Body& body) {
  static_assert(kGrain % Columns::kBlock == 0);
  if (threads != nullptr) {
    threads->parallel_for(count, kGrain, body);
  } else if (count > 0) {
    body(std::size_t{0}, count);
  }
}

double distance_squared(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double step = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += step * step;
  }
  return sum;
}

// The centre nearest to a point; ties go to the first.
struct Nearest {
  double distance = kInfinity;
  std::uint32_t group = std::numeric_limits<std::uint32_t>::max();

  void meet(double other, std::uint32_t other_group) {
    if (other < distance || (other == distance && other_group < group)) {
      *this = {other, other_group};
    }
  }
};

// One run of k-means from one start.
class Lloyd {
 public:
  Lloyd(std::span<const float> points, std::size_t dimension, const Columns& columns,
        ThreadPool* threads)
      : points_(points),
        dimension_(dimension),
        columns_(columns),
        threads_(threads),
        centre_columns_(dimension),
        moved_columns_(dimension) {}

  KMeans run(std::size_t groups, Rng rng, std::size_t most_iterations) {
    spread_out_centres(groups, rng);
    nearest_.assign(columns_.count(), {});
    moved_.assign(centre_count(), 1);
    KMeans result;
    while (result.iterations < most_iterations && assign_points()) {
      ++result.iterations;
      move_centres();
    }
    for (const Nearest& nearest : nearest_) {
      result.group.push_back(nearest.group);
      result.spread += nearest.distance;
    }
    result.centres = std::move(centres_);
    return result;
  }

 private:
  std::span<const float> point(std::size_t i) const {
    return points_.subspan(i * dimension_, dimension_);
  }
  std::span<const float> centre(std::size_t group) const {
    return std::span(centres_).subspan(group * dimension_, dimension_);
  }
  std::size_t centre_count() const { return centres_.size() / dimension_; }

  // Each next centre is a point drawn in proportion to its squared distance from those so far.
  void spread_out_centres(std::size_t groups, Rng& rng) {
    const std::size_t count = columns_.count();
    std::vector<double> nearest(count, kInfinity);
    auto chosen = static_cast<std::size_t>(rng.below(count));
    for (std::size_t group = 0; group < groups; ++group) {
      centres_.insert(centres_.end(), point(chosen).begin(), point(chosen).end());
      for_pieces(count, threads_, [&](std::size_t begin, std::size_t end) {
        columns_.distances(point(chosen), begin, end, [&](std::size_t i, double distance) {
          nearest[i] = std::min(nearest[i], distance);
        });
      });
      double total = 0.0;
      for (const double distance : nearest) {
        total += distance;
      }
      if (total == 0.0) {
        break;  // fewer different points than groups
      }
      double left = rng.uniform() * total;
      for (chosen = 0; chosen + 1 < count && left >= nearest[chosen]; ++chosen) {
        left -= nearest[chosen];
      }
    }
  }

  // Assigns every point to its nearest centre. Returns false if that changes nothing.
  bool assign_points() {
    centre_columns_.resize(centre_count());
    moved_groups_.clear();
    for (std::uint32_t group = 0; group < centre_count(); ++group) {
      centre_columns_.set(group, centre(group));
      if (moved_[group] != 0) {
        moved_groups_.push_back(group);
      }
    }
    moved_columns_.resize(moved_groups_.size());
    for (std::size_t i = 0; i < moved_groups_.size(); ++i) {
      moved_columns_.set(i, centre(moved_groups_[i]));
    }
    std::atomic<bool> changed{false};
    for_pieces(columns_.count(), threads_, [&](std::size_t begin, std::size_t end) {
      bool some = false;
      for (std::size_t i = begin; i < end; ++i) {
        const Nearest found = find_nearest(i);
        some = some || found.group != nearest_[i].group;
        nearest_[i] = found;
      }
      if (some) {
        changed.store(true, std::memory_order_relaxed);
      }
    });
    return changed.load();
  }

  // If a point's own centre has not moved away from it, only centres that moved can be nearer now.
  Nearest find_nearest(std::size_t i) const {
    const Nearest& old = nearest_[i];
    if (old.distance < kInfinity) {
      const double own =
          moved_[old.group] != 0 ? distance_squared(point(i), centre(old.group)) : old.distance;
      if (own <= old.distance) {
        Nearest found{own, old.group};
        moved_columns_.distances(
            point(i), 0, moved_columns_.count(),
            [&](std::size_t k, double distance) { found.meet(distance, moved_groups_[k]); });
        return found;
      }
    }
    Nearest found;
    centre_columns_.distances(point(i), 0, centre_columns_.count(),
                              [&](std::size_t group, double distance) {
                                if (distance < found.distance) {
                                  found = {distance, static_cast<std::uint32_t>(group)};
                                }
                              });
    return found;
  }

  // Moves every centre to the mean of its points. A centre without points stays where it is.
  void move_centres() {
    std::vector<double> sums(centres_.size());
    std::vector<std::size_t> sizes(centre_count());
    for (std::size_t i = 0; i < nearest_.size(); ++i) {
      const std::size_t group = nearest_[i].group;
      ++sizes[group];
      for (std::size_t j = 0; j < dimension_; ++j) {
        sums[group * dimension_ + j] += static_cast<double>(points_[i * dimension_ + j]);
      }
    }
    for (std::size_t group = 0; group < sizes.size(); ++group) {
      moved_[group] = 0;
      for (std::size_t j = 0; sizes[group] > 0 && j < dimension_; ++j) {
        const auto mean =
            static_cast<float>(sums[group * dimension_ + j] / static_cast<double>(sizes[group]));
        if (mean != centres_[group * dimension_ + j]) {
          centres_[group * dimension_ + j] = mean;
          moved_[group] = 1;
        }
      }
    }
  }

  std::span<const float> points_;
  std::size_t dimension_;
  const Columns& columns_;  // the points
  ThreadPool* threads_;
  std::vector<float> centres_;
  std::vector<Nearest> nearest_;  // centre of every point
  std::vector<std::uint8_t> moved_;
  std::vector<std::uint32_t> moved_groups_;  // ascending
  Columns centre_columns_;
  Columns moved_columns_;  // of the centres that moved
};

// Drops groups that lost all their points, and renumbers the others.
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
               std::uint64_t seed, std::size_t most_iterations, std::size_t starts,
               ThreadPool* threads) {
  check(dimension > 0 && points.size() % dimension == 0, "points are whole");
  check(most_iterations > 0, "at least one iteration puts every point into a group");
  check(starts > 0, "k-means has at least one start");
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
  const Columns columns(points, dimension);
  std::vector<KMeans> results(starts);
  const auto run = [&](std::size_t start) {
    results[start] = Lloyd(points, dimension, columns, threads)
                         .run(groups, Rng(seed, Stream::kPreClusters, start), most_iterations);
  };
  if (threads != nullptr && starts > 1) {
    threads->parallel_for(starts, 1, [&](std::size_t start, std::size_t) { run(start); });
  } else {
    for (std::size_t start = 0; start < starts; ++start) {
      run(start);
    }
  }
  KMeans best = std::move(*std::ranges::min_element(results, {}, &KMeans::spread));
  drop_empty_groups(dimension, best);
  return best;
}

}  // namespace mcnb
