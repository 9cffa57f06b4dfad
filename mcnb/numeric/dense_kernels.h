#pragma once

#include <cstddef>

// Products, factors and triangular systems of dense matrices in double precision, compiled for
// every instruction set like the loops of kernels.h. Every element is computed by the same
// operations in the same order for any width of vectors, so AVX2 and AVX-512 agree bit for bit.
// Matrices are stored row by row, `stride` numbers from one row to the next. Arguments are not
// checked.
namespace mcnb::kernels {

// C += A B, with A of rows x inner and B of inner x columns elements.
struct MatrixProduct {
  std::size_t rows;
  std::size_t inner;
  std::size_t columns;
  // Element (i, k) of A is a[i * a_row_step + k * a_inner_step], so that A may be transposed.
  const double* a;
  std::size_t a_row_step;
  std::size_t a_inner_step;
  const double* b;
  std::size_t b_stride;
  double* c;
  std::size_t c_stride;
  bool subtract = false;  // C -= A B
  // Only the elements of C on and above its diagonal are needed. What those below it hold
  // afterwards is not defined.
  bool upper = false;
  // A(i, k) is zero for k < i. It is not read there, except near the diagonal.
  bool a_is_upper = false;
};
void add_product(const MatrixProduct& product);

// Factors a symmetric positive definite matrix A = R^T R in place: reads the upper half of the
// first n columns of `matrix` and writes R there. The further columns B, up to `columns`, become
// R^-T B. What the lower half holds afterwards is not defined. If A is not positive definite, the
// results are not numbers.
void factor(std::size_t n, std::size_t columns, double* matrix, std::size_t stride);

// Solves R X = B in place: the `columns` columns at `x` are B before and X afterwards.
void solve_upper(std::size_t n, const double* r, std::size_t r_stride, std::size_t columns,
                 double* x, std::size_t x_stride);

// Writes R^-T, which is lower triangular, to `inverse`, zeros above its diagonal included.
void invert_factor(std::size_t n, const double* r, std::size_t r_stride, double* inverse,
                   std::size_t inverse_stride);

}  // namespace mcnb::kernels
