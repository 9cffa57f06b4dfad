#pragma once

#include <Eigen/Dense>

#include "mcnb/numeric/dense_kernels.h"

namespace mcnb {

// A matrix that is stored row by row, as the kernels want it.
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Some rows and columns of a RowMatrix, as a factor of a product. Borrows the matrix.
struct Operand {
  const double* values;
  std::size_t rows;
  std::size_t columns;
  std::size_t row_step;
  std::size_t column_step;

  static Operand of(const RowMatrix& matrix) {
    const auto columns = static_cast<std::size_t>(matrix.cols());
    return {matrix.data(), static_cast<std::size_t>(matrix.rows()), columns, columns, 1};
  }
  // Columns begin .. begin + count.
  Operand columns_from(std::size_t begin, std::size_t count) const {
    return {values + begin * column_step, rows, count, row_step, column_step};
  }
  Operand rows_from(std::size_t begin, std::size_t count) const {
    return {values + begin * row_step, count, columns, row_step, column_step};
  }
  Operand transposed() const { return {values, columns, rows, column_step, row_step}; }
};

// Where the product goes: the columns of a RowMatrix from `begin` on.
struct ProductTarget {
  RowMatrix& matrix;
  std::size_t begin = 0;
};

struct ProductKind {
  bool subtract = false;
  bool upper = false;       // only the upper half is needed
  bool a_is_upper = false;  // A is upper triangular
};

// to += A B, or -= A B. Requires a B that is not transposed.
inline void add_product(const Operand& a, const Operand& b, const ProductTarget& to,
                        const ProductKind& kind = {}) {
  const auto stride = static_cast<std::size_t>(to.matrix.cols());
  kernels::add_product({.rows = a.rows,
                        .inner = a.columns,
                        .columns = b.columns,
                        .a = a.values,
                        .a_row_step = a.row_step,
                        .a_inner_step = a.column_step,
                        .b = b.values,
                        .b_stride = b.row_step,
                        .c = to.matrix.data() + to.begin,
                        .c_stride = stride,
                        .subtract = kind.subtract,
                        .upper = kind.upper,
                        .a_is_upper = kind.a_is_upper});
}

// Factors the leading square of a system of as many rows (kernels::factor). Returns the logarithm
// of its determinant.
inline double factor_system(RowMatrix& system) {
  kernels::factor(static_cast<std::size_t>(system.rows()), static_cast<std::size_t>(system.cols()),
                  system.data(), static_cast<std::size_t>(system.cols()));
  return 2.0 * system.leftCols(system.rows()).diagonal().array().log().sum();
}

// The inner products of the rows of two matrices. Requires an operand that is not transposed.
inline Eigen::VectorXd row_dots(const Operand& a, const RowMatrix& b) {
  Eigen::VectorXd dots(b.rows());
  for (Eigen::Index i = 0; i < b.rows(); ++i) {
    const double* const row = a.values + static_cast<std::size_t>(i) * a.row_step;
    dots[i] = b.row(i).dot(Eigen::Map<const Eigen::RowVectorXd>(row, b.cols()));
  }
  return dots;
}

// Copies the upper half to the lower one.
inline void mirror_upper(RowMatrix& matrix) {
  matrix.triangularView<Eigen::StrictlyLower>() = matrix.transpose();
}

}  // namespace mcnb
