#pragma once

#include <Eigen/Dense>
#include <algorithm>

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
  // The first rows and columns.
  static Operand of(const RowMatrix& matrix, std::size_t rows, std::size_t columns) {
    return {matrix.data(), rows, columns, static_cast<std::size_t>(matrix.cols()), 1};
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

// The inner products of the rows of two operands that are not transposed.
inline Eigen::VectorXd row_dots(const Operand& a, const Operand& b) {
  using Row = Eigen::Map<const Eigen::RowVectorXd>;
  const auto columns = static_cast<Eigen::Index>(a.columns);
  Eigen::VectorXd dots(static_cast<Eigen::Index>(a.rows));
  for (std::size_t i = 0; i < a.rows; ++i) {
    dots[static_cast<Eigen::Index>(i)] =
        Row(a.values + i * a.row_step, columns).dot(Row(b.values + i * b.row_step, columns));
  }
  return dots;
}

// Gives a matrix room for so many rows and columns. It never shrinks, so that memory that is reused
// for many sizes is allocated once.
inline void make_room(RowMatrix& matrix, std::size_t rows, std::size_t columns) {
  const auto least_rows = static_cast<Eigen::Index>(rows);
  const auto least_columns = static_cast<Eigen::Index>(columns);
  if (matrix.rows() < least_rows || matrix.cols() < least_columns) {
    matrix.resize(std::max(matrix.rows(), least_rows), std::max(matrix.cols(), least_columns));
  }
}

// The same, and sets these rows and columns to zero.
inline void make_zeros(RowMatrix& matrix, std::size_t rows, std::size_t columns) {
  make_room(matrix, rows, columns);
  matrix.topLeftCorner(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns))
      .setZero();
}

// Copies the upper half to the lower one.
inline void mirror_upper(RowMatrix& matrix) {
  matrix.triangularView<Eigen::StrictlyLower>() = matrix.transpose();
}

}  // namespace mcnb
