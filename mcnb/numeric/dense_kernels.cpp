#include "mcnb/numeric/dense_kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/dense_kernels.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<double, 8>;
using Two = hn::CappedTag<double, 2>;
using One = hn::CappedTag<double, 1>;
constexpr std::size_t kLanes = HWY_MIN(HWY_LANES(double), 8);
// The sums of a tile fit the registers.
constexpr std::size_t kTileRows = kLanes >= 8 ? 8 : 4;
constexpr std::size_t kTileVectors = 3;
constexpr std::size_t kBlock = 8;  // rows that are solved together

// Calls visit.columns<number of vectors>(tag, first column) until [begin, end) is visited.
template <std::size_t kVectors, class Visit>
HWY_INLINE void for_all_columns(std::size_t begin, std::size_t end, const Visit& visit) {
  std::size_t column = begin;
  for (; column + kVectors * kLanes <= end; column += kVectors * kLanes) {
    visit.template columns<kVectors>(Tag(), column);
  }
  for (; column + kLanes <= end; column += kLanes) {
    visit.template columns<1>(Tag(), column);
  }
  for (; column + hn::Lanes(Two()) <= end; column += hn::Lanes(Two())) {
    visit.template columns<1>(Two(), column);
  }
  for (; column < end; ++column) {
    visit.template columns<1>(One(), column);
  }
}

// Some rows of a product.
template <std::size_t kRows, bool kSubtract>
struct ProductRows {
  const MatrixProduct& product;
  std::size_t row;
  std::size_t first;  // of the inner index

  template <std::size_t kVectors, class AnyTag>
  HWY_INLINE void columns(AnyTag tag, std::size_t column) const {
    const std::size_t lanes = hn::Lanes(tag);
    double* const c = product.c + row * product.c_stride + column;
    hn::Vec<AnyTag> sums[kRows][kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::LoadU(tag, c + r * product.c_stride + v * lanes);
      }
    }
    const double* a = product.a + row * product.a_row_step + first * product.a_inner_step;
    const double* b = product.b + first * product.b_stride + column;
    for (std::size_t k = first; k < product.inner; ++k) {
      hn::Vec<AnyTag> values[kVectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        values[v] = hn::LoadU(tag, b + v * lanes);
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(tag, a[r * product.a_row_step]);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < kVectors; ++v) {
          sums[r][v] = kSubtract ? hn::NegMulAdd(factor, values[v], sums[r][v])
                                 : hn::MulAdd(factor, values[v], sums[r][v]);
        }
      }
      a += product.a_inner_step;
      b += product.b_stride;
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        hn::StoreU(sums[r][v], tag, c + r * product.c_stride + v * lanes);
      }
    }
  }
};

template <std::size_t kRows, bool kSubtract>
HWY_INLINE void add_rows(const MatrixProduct& product, std::size_t& row) {
  for (; row + kRows <= product.rows; row += kRows) {
    const ProductRows<kRows, kSubtract> rows{product, row, product.a_is_upper ? row : 0};
    for_all_columns<kTileVectors>(product.upper ? row : 0, product.columns, rows);
  }
}

template <bool kSubtract>
HWY_INLINE void add_all_rows(const MatrixProduct& product) {
  std::size_t row = 0;
  add_rows<kTileRows, kSubtract>(product, row);
  if constexpr (kTileRows > 4) {
    add_rows<4, kSubtract>(product, row);
  }
  add_rows<2, kSubtract>(product, row);
  add_rows<1, kSubtract>(product, row);
}

void AddProduct(const MatrixProduct& product) {
  if (product.subtract) {
    add_all_rows<true>(product);
  } else {
    add_all_rows<false>(product);
  }
}

// sum - a * b, rounded as in vectors.
HWY_INLINE double subtract_product(double a, double b, double sum) {
  const One one;
  return hn::GetLane(hn::NegMulAdd(hn::Set(one, a), hn::Set(one, b), hn::Set(one, sum)));
}

// A triangular system of a few rows: row i is (row i - sum over k < i of parts[i][k] row k) times
// scales[i]. `rows` are numbers of rows at `x`, in the order in which they are solved.
struct Triangle {
  std::size_t size;
  double parts[kBlock][kBlock];
  double scales[kBlock];
  double* x;
  std::size_t stride;
  std::size_t rows[kBlock];

  template <std::size_t kVectors, class AnyTag>
  HWY_INLINE void columns(AnyTag tag, std::size_t column) const {
    static_assert(kVectors == 1);
    hn::Vec<AnyTag> solved[kBlock];
    if (size == kBlock) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kBlock; ++i) {
        solve(tag, column, i, solved);
      }
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        solve(tag, column, i, solved);
      }
    }
  }

  template <class AnyTag>
  HWY_INLINE void solve(AnyTag tag, std::size_t column, std::size_t i,
                        hn::Vec<AnyTag>* solved) const {
    double* const to = x + rows[i] * stride + column;
    auto sum = hn::LoadU(tag, to);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < i; ++k) {
      sum = hn::NegMulAdd(hn::Set(tag, parts[i][k]), solved[k], sum);
    }
    solved[i] = hn::Mul(sum, hn::Set(tag, scales[i]));
    hn::StoreU(solved[i], tag, to);
  }
};

// Of the rows first .. first + size of the system R^T X = B.
HWY_INLINE Triangle forward_triangle(const double* r, std::size_t r_stride, std::size_t first,
                                     std::size_t size, double* x, std::size_t x_stride) {
  Triangle triangle{.size = size, .x = x, .stride = x_stride};
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      triangle.parts[i][k] = r[(first + k) * r_stride + first + i];
    }
    triangle.scales[i] = 1.0 / r[(first + i) * r_stride + first + i];
    triangle.rows[i] = first + i;
  }
  return triangle;
}

// Of the rows first .. first + size of the system R X = B: the last row comes first.
HWY_INLINE Triangle backward_triangle(const double* r, std::size_t r_stride, std::size_t first,
                                      std::size_t size, double* x, std::size_t x_stride) {
  Triangle triangle{.size = size, .x = x, .stride = x_stride};
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t row = first + size - 1 - i;
    for (std::size_t k = 0; k < i; ++k) {
      triangle.parts[i][k] = r[row * r_stride + first + size - 1 - k];
    }
    triangle.scales[i] = 1.0 / r[row * r_stride + row];
    triangle.rows[i] = row;
  }
  return triangle;
}

// Factors a block on the diagonal.
HWY_INLINE void factor_block(std::size_t size, double* block, std::size_t stride) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = i; j < size; ++j) {
      double sum = block[i * stride + j];
      for (std::size_t k = 0; k < i; ++k) {
        sum = subtract_product(block[k * stride + i], block[k * stride + j], sum);
      }
      block[i * stride + j] = sum;
    }
    const double root = std::sqrt(block[i * stride + i]);
    block[i * stride + i] = root;
    const double scale = 1.0 / root;
    for (std::size_t j = i + 1; j < size; ++j) {
      block[i * stride + j] *= scale;
    }
  }
}

void Factor(std::size_t n, std::size_t columns, double* matrix, std::size_t stride) {
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t size = std::min(kBlock, n - first);
    double* const block = matrix + first * stride + first;
    AddProduct({.rows = size,
                .inner = first,
                .columns = columns - first,
                .a = matrix + first,
                .a_row_step = 1,
                .a_inner_step = stride,
                .b = matrix + first,
                .b_stride = stride,
                .c = block,
                .c_stride = stride,
                .subtract = true,
                .upper = true});
    factor_block(size, block, stride);
    for_all_columns<1>(first + size, columns,
                       forward_triangle(matrix, stride, first, size, matrix, stride));
  }
}

void SolveUpper(std::size_t n, const double* r, std::size_t r_stride, std::size_t columns,
                double* x, std::size_t x_stride) {
  for (std::size_t blocks = (n + kBlock - 1) / kBlock; blocks > 0; --blocks) {
    const std::size_t first = (blocks - 1) * kBlock;
    const std::size_t size = std::min(kBlock, n - first);
    AddProduct({.rows = size,
                .inner = n - first - size,
                .columns = columns,
                .a = r + first * r_stride + first + size,
                .a_row_step = r_stride,
                .a_inner_step = 1,
                .b = x + (first + size) * x_stride,
                .b_stride = x_stride,
                .c = x + first * x_stride,
                .c_stride = x_stride,
                .subtract = true});
    for_all_columns<1>(0, columns, backward_triangle(r, r_stride, first, size, x, x_stride));
  }
}

void InvertFactor(std::size_t n, const double* r, std::size_t r_stride, double* inverse,
                  std::size_t inverse_stride) {
  for (std::size_t i = 0; i < n; ++i) {
    std::fill_n(inverse + i * inverse_stride, n, 0.0);
    inverse[i * inverse_stride + i] = 1.0;
  }
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t size = std::min(kBlock, n - first);
    AddProduct({.rows = size,
                .inner = first,
                .columns = first,
                .a = r + first,
                .a_row_step = 1,
                .a_inner_step = r_stride,
                .b = inverse,
                .b_stride = inverse_stride,
                .c = inverse + first * inverse_stride,
                .c_stride = inverse_stride,
                .subtract = true});
    for_all_columns<1>(0, first + size,
                       forward_triangle(r, r_stride, first, size, inverse, inverse_stride));
  }
}

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mcnb::kernels {

HWY_EXPORT(AddProduct);
HWY_EXPORT(Factor);
HWY_EXPORT(SolveUpper);
HWY_EXPORT(InvertFactor);

void add_product(const MatrixProduct& product) { HWY_DYNAMIC_DISPATCH(AddProduct)(product); }

void factor(std::size_t n, std::size_t columns, double* matrix, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(Factor)(n, columns, matrix, stride);
}

void solve_upper(std::size_t n, const double* r, std::size_t r_stride, std::size_t columns,
                 double* x, std::size_t x_stride) {
  HWY_DYNAMIC_DISPATCH(SolveUpper)(n, r, r_stride, columns, x, x_stride);
}

void invert_factor(std::size_t n, const double* r, std::size_t r_stride, double* inverse,
                   std::size_t inverse_stride) {
  HWY_DYNAMIC_DISPATCH(InvertFactor)(n, r, r_stride, inverse, inverse_stride);
}

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
