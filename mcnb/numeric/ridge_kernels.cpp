#include "mcnb/numeric/ridge_kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/ridge_kernels.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<double, 8>;
using Two = hn::CappedTag<double, 2>;
using One = hn::CappedTag<double, 1>;
constexpr std::size_t kLanes = HWY_MIN(HWY_LANES(double), 8);

// a * b + sum, rounded as in vectors.
HWY_INLINE double multiply_add(double a, double b, double sum) {
  const One one;
  return hn::GetLane(hn::MulAdd(hn::Set(one, a), hn::Set(one, b), hn::Set(one, sum)));
}

// Sums over the dimensions run in four lanes, number i in lane i mod 4.
HWY_INLINE double sum_four(const double* lanes) {
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

HWY_INLINE double dot(const double* a, const double* b, std::size_t n) {
  double lanes[4] = {};
  for (std::size_t i = 0; i < n; ++i) {
    lanes[i % 4] = multiply_add(a[i], b[i], lanes[i % 4]);
  }
  return sum_four(lanes);
}

// Calls visit.rows<number of vectors>(tag, first row) until all n rows are visited.
template <class Visit>
HWY_INLINE void for_all_rows(std::size_t n, const Visit& visit) {
  std::size_t row = 0;
  for (; row + 2 * kLanes <= n; row += 2 * kLanes) {
    visit.template rows<2>(Tag(), row);
  }
  for (; row + kLanes <= n; row += kLanes) {
    visit.template rows<1>(Tag(), row);
  }
  for (; row + hn::Lanes(Two()) <= n; row += hn::Lanes(Two())) {
    visit.template rows<1>(Two(), row);
  }
  for (; row < n; ++row) {
    visit.template rows<1>(One(), row);
  }
}

// product = A x
struct Multiply {
  std::size_t n;
  const double* a;
  const double* x;
  double* product;

  template <std::size_t kVectors, class AnyTag>
  HWY_INLINE void rows(AnyTag tag, std::size_t row) const {
    const std::size_t lanes = hn::Lanes(tag);
    hn::Vec<AnyTag> sums[kVectors];
#pragma GCC unroll 2
    for (std::size_t r = 0; r < kVectors; ++r) {
      sums[r] = hn::Zero(tag);
    }
    for (std::size_t column = 0; column < n; ++column) {
      const auto factor = hn::Set(tag, x[column]);
#pragma GCC unroll 2
      for (std::size_t r = 0; r < kVectors; ++r) {
        const auto part = hn::LoadU(tag, a + column * n + row + r * lanes);
        sums[r] = hn::MulAdd(part, factor, sums[r]);
      }
    }
#pragma GCC unroll 2
    for (std::size_t r = 0; r < kVectors; ++r) {
      hn::StoreU(sums[r], tag, product + row + r * lanes);
    }
  }
};

// A += factor u u^T; then product = A x and, if it is not null, second_product = A y.
template <bool kTwoProducts>
struct UpdateAndMultiply {
  std::size_t n;
  double* a;
  const double* u;
  double factor;
  const double* x;
  double* product;
  const double* y = nullptr;
  double* second_product = nullptr;

  template <std::size_t kVectors, class AnyTag>
  HWY_INLINE void rows(AnyTag tag, std::size_t row) const {
    const std::size_t lanes = hn::Lanes(tag);
    hn::Vec<AnyTag> own[kVectors];
    hn::Vec<AnyTag> sums[kVectors];
    hn::Vec<AnyTag> second_sums[kVectors];
#pragma GCC unroll 2
    for (std::size_t r = 0; r < kVectors; ++r) {
      own[r] = hn::LoadU(tag, u + row + r * lanes);
      sums[r] = hn::Zero(tag);
      second_sums[r] = hn::Zero(tag);
    }
    for (std::size_t column = 0; column < n; ++column) {
      const auto scale = hn::Set(tag, factor * u[column]);
      const auto of_x = hn::Set(tag, x[column]);
#pragma GCC unroll 2
      for (std::size_t r = 0; r < kVectors; ++r) {
        double* const target = a + column * n + row + r * lanes;
        const auto part = hn::MulAdd(scale, own[r], hn::LoadU(tag, target));
        hn::StoreU(part, tag, target);
        sums[r] = hn::MulAdd(part, of_x, sums[r]);
        if constexpr (kTwoProducts) {
          second_sums[r] = hn::MulAdd(part, hn::Set(tag, y[column]), second_sums[r]);
        }
      }
    }
#pragma GCC unroll 2
    for (std::size_t r = 0; r < kVectors; ++r) {
      hn::StoreU(sums[r], tag, product + row + r * lanes);
      if constexpr (kTwoProducts) {
        hn::StoreU(second_sums[r], tag, second_product + row + r * lanes);
      }
    }
  }
};

double AddSample(const SmallRidge& ridge, const double* x, double reward) {
  const std::size_t n = ridge.n;
  double moved[kSmallRidge];  // M^-1 x before the update
  double after[kSmallRidge];  // M^-1 x after the update
  double back[kSmallRidge];   // M M^-1 x
  for_all_rows(n, Multiply{n, ridge.inverse, x, moved});
  const double shrink = -1.0 / (1.0 + dot(x, moved, n));
  for (std::size_t i = 0; i < n; ++i) {
    ridge.sum[i] = multiply_add(reward, x[i], ridge.sum[i]);
  }
  for_all_rows(n, UpdateAndMultiply<true>{n, ridge.inverse, moved, shrink, x, after, ridge.sum,
                                          ridge.weights});
  for_all_rows(n, UpdateAndMultiply<false>{n, ridge.matrix, x, 1.0, after, back});
  for (std::size_t i = 0; i < n; ++i) {
    back[i] -= x[i];
  }
  return dot(back, back, n);
}

void FindWeights(const SmallRidge& ridge) {
  for_all_rows(ridge.n, Multiply{ridge.n, ridge.inverse, ridge.sum, ridge.weights});
}

// Points interleaved: coordinate i of all points at panel + i * kPointsTogether.
struct Panel {
  std::size_t n;
  const double* inverse;
  const double* weights;
  const double* values;
  double* estimates;
  double* squares;

  // Adds the contribution of kRows dimensions, from `first` on, to the lanes of all points.
  template <std::size_t kVectors, std::size_t kRows>
  HWY_INLINE void add_rows(std::size_t point, std::size_t first, hn::Vec<Tag> (*of_squares)[4],
                           hn::Vec<Tag> (*of_estimates)[4]) const {
    const Tag tag;
    hn::Vec<Tag> moved[kVectors][kRows];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) {
        moved[v][r] = hn::Zero(tag);
      }
    }
    for (std::size_t column = 0; column < n; ++column) {
      const double* const part = inverse + column * n + first;
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        const auto x = hn::LoadU(tag, values + column * kPointsTogether + point + v * kLanes);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) {
          moved[v][r] = hn::MulAdd(hn::Set(tag, part[r]), x, moved[v][r]);
        }
      }
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto x = hn::LoadU(tag, values + (first + r) * kPointsTogether + point + v * kLanes);
        const auto weight = hn::Set(tag, weights[first + r]);
        of_squares[v][r] = hn::MulAdd(x, moved[v][r], of_squares[v][r]);
        of_estimates[v][r] = hn::MulAdd(x, weight, of_estimates[v][r]);
      }
    }
  }

  template <std::size_t kVectors>
  HWY_INLINE void predict(std::size_t point) const {
    const Tag tag;
    hn::Vec<Tag> of_squares[kVectors][4];
    hn::Vec<Tag> of_estimates[kVectors][4];
    for (std::size_t v = 0; v < kVectors; ++v) {
      for (std::size_t r = 0; r < 4; ++r) {
        of_squares[v][r] = hn::Zero(tag);
        of_estimates[v][r] = hn::Zero(tag);
      }
    }
    std::size_t row = 0;
    for (; row + 4 <= n; row += 4) {
      add_rows<kVectors, 4>(point, row, of_squares, of_estimates);
    }
    switch (n - row) {
      case 1:
        add_rows<kVectors, 1>(point, row, of_squares, of_estimates);
        break;
      case 2:
        add_rows<kVectors, 2>(point, row, of_squares, of_estimates);
        break;
      case 3:
        add_rows<kVectors, 3>(point, row, of_squares, of_estimates);
        break;
      default:
        break;
    }
    const auto sum = [&](const hn::Vec<Tag>* lanes) HWY_ATTR {
      return hn::Add(hn::Add(lanes[0], lanes[2]), hn::Add(lanes[1], lanes[3]));
    };
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sum(of_squares[v]), tag, squares + point + v * kLanes);
      hn::StoreU(sum(of_estimates[v]), tag, estimates + point + v * kLanes);
    }
  }
};

void PredictPoints(std::size_t n, const double* inverse, const double* weights,
                   std::span<const float* const> points, double* estimates, double* squares) {
  if (points.size() == 1) {
    double x[kSmallRidge];
    double moved[kSmallRidge];
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<double>(points[0][i]);
    }
    for_all_rows(n, Multiply{n, inverse, x, moved});
    estimates[0] = dot(x, weights, n);
    squares[0] = dot(x, moved, n);
    return;
  }
  // Lanes after the last point compute values that are not used.
  alignas(64) double values[kSmallRidge * kPointsTogether];
  alignas(64) double all_estimates[kPointsTogether];
  alignas(64) double all_squares[kPointsTogether];
  const std::size_t vectors = (points.size() + kLanes - 1) / kLanes;
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = values + i * kPointsTogether;
    for (std::size_t k = 0; k < points.size(); ++k) {
      row[k] = static_cast<double>(points[k][i]);
    }
    for (std::size_t k = points.size(); k < vectors * kLanes; ++k) {
      row[k] = 0.0;
    }
  }
  const Panel panel{n, inverse, weights, values, all_estimates, all_squares};
  std::size_t vector = 0;
  for (; vector + 2 <= vectors; vector += 2) {
    panel.predict<2>(vector * kLanes);
  }
  if (vector < vectors) {
    panel.predict<1>(vector * kLanes);
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    estimates[k] = all_estimates[k];
    squares[k] = all_squares[k];
  }
}

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mcnb::kernels {

HWY_EXPORT(AddSample);
HWY_EXPORT(FindWeights);
HWY_EXPORT(PredictPoints);

double add_sample(const SmallRidge& ridge, const double* x, double reward) {
  return HWY_DYNAMIC_DISPATCH(AddSample)(ridge, x, reward);
}

void find_weights(const SmallRidge& ridge) { HWY_DYNAMIC_DISPATCH(FindWeights)(ridge); }

void predict_points(std::size_t n, const double* inverse, const double* weights,
                    std::span<const float* const> points, double* estimates, double* squares) {
  HWY_DYNAMIC_DISPATCH(PredictPoints)(n, inverse, weights, points, estimates, squares);
}

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
