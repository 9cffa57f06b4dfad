#include "mcnb/numeric/dense_kernels.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>

#include "tests/numeric/plain_network.h"

namespace mcnb::dense_kernels_test {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;

// Sizes around those of tiles and blocks.
constexpr Index kSizes[] = {1, 2, 5, 7, 8, 9, 16, 17, 23, 31, 45, 66};

Matrix draw(Rng& rng, Index rows, Index columns) {
  Matrix matrix(rows, columns);
  for (double& value : matrix.reshaped()) {
    value = rng.normal();
  }
  return matrix;
}

Matrix positive(Rng& rng, Index size) {
  const Matrix any = draw(rng, size, size + 3);
  return any * any.transpose() + Matrix::Identity(size, size);
}

std::size_t size_of(Index size) { return static_cast<std::size_t>(size); }

// C += A B by a plain loop.
Matrix plain_product(const Matrix& a, const Matrix& b, const Matrix& c, double sign) {
  Matrix result = c;
  for (Index i = 0; i < c.rows(); ++i) {
    for (Index j = 0; j < c.cols(); ++j) {
      for (Index k = 0; k < a.cols(); ++k) {
        result(i, j) += sign * a(i, k) * b(k, j);
      }
    }
  }
  return result;
}

void multiply(const Matrix& a, bool turned, const Matrix& b, Matrix& c, bool subtract, bool upper,
              bool a_is_upper) {
  const Matrix stored = turned ? Matrix(a.transpose()) : a;
  const std::size_t stride = size_of(stored.cols());
  kernels::add_product({.rows = size_of(c.rows()),
                        .inner = size_of(b.rows()),
                        .columns = size_of(c.cols()),
                        .a = stored.data(),
                        .a_row_step = turned ? 1 : stride,
                        .a_inner_step = turned ? stride : 1,
                        .b = b.data(),
                        .b_stride = size_of(b.cols()),
                        .c = c.data(),
                        .c_stride = size_of(c.cols()),
                        .subtract = subtract,
                        .upper = upper,
                        .a_is_upper = a_is_upper});
}

void expect_near_upper(const Matrix& found, const Matrix& expected, bool upper) {
  for (Index i = 0; i < found.rows(); ++i) {
    for (Index j = upper ? i : 0; j < found.cols(); ++j) {
      ASSERT_NEAR(found(i, j), expected(i, j), 1e-12) << i << ", " << j;
    }
  }
}

TEST(DenseKernels, MultiplyLikePlainLoopsOnEveryInstructionSet) {
  for (const std::string& target : kernels::simd_targets()) {
    const plain::SimdTargetInScope use(target);
    Rng rng(1, Stream::kTest);
    for (const Index rows : kSizes) {
      const Index inner = kSizes[rng.below(std::size(kSizes))];
      const Index columns = kSizes[rng.below(std::size(kSizes))];
      SCOPED_TRACE(target + ", " + std::to_string(rows) + " x " + std::to_string(inner) + " x " +
                   std::to_string(columns));
      for (int kind = 0; kind < 16; ++kind) {
        const bool turned = (kind & 1) != 0;
        const bool subtract = (kind & 2) != 0;
        const bool upper = (kind & 4) != 0;
        const bool a_is_upper = (kind & 8) != 0;
        Matrix a = draw(rng, rows, inner);
        if (a_is_upper) {
          a.triangularView<Eigen::StrictlyLower>().setZero();
        }
        const Matrix b = draw(rng, inner, columns);
        Matrix c = draw(rng, rows, columns);
        const Matrix expected = plain_product(a, b, c, subtract ? -1.0 : 1.0);
        multiply(a, turned, b, c, subtract, upper, a_is_upper);
        expect_near_upper(c, expected, upper);
      }
    }
  }
}

// A system [A | B], and what is left of it.
struct Factored {
  Matrix a;
  Matrix b;
  Matrix system;

  Factored(Rng& rng, Index size, Index more)
      : a(positive(rng, size)), b(draw(rng, size, more)), system(size, size + more) {
    system << a, b;
    // Nothing reads what lies below the diagonal.
    system.leftCols(size).triangularView<Eigen::StrictlyLower>().setConstant(std::nan(""));
    kernels::factor(size_of(size), size_of(size + more), system.data(), stride());
  }
  std::size_t stride() const { return size_of(system.cols()); }
  Matrix r() const { return system.leftCols(a.rows()).triangularView<Eigen::Upper>(); }
};

TEST(DenseKernels, FactorAndSolveOnEveryInstructionSet) {
  for (const std::string& target : kernels::simd_targets()) {
    const plain::SimdTargetInScope use(target);
    Rng rng(2, Stream::kTest);
    for (const Index size : kSizes) {
      const Index more = kSizes[rng.below(std::size(kSizes))];
      SCOPED_TRACE(target + ", size " + std::to_string(size) + " and " + std::to_string(more));
      const Factored factored(rng, size, more);
      const Matrix r = factored.r();
      const double scale = factored.a.norm();
      EXPECT_LE((r.transpose() * r - factored.a).norm(), 1e-13 * scale);
      Matrix x = factored.system.rightCols(more);
      EXPECT_LE((r.transpose() * x - factored.b).norm(), 1e-11 * (1.0 + factored.b.norm()));
      Matrix inverse(size, size);
      kernels::invert_factor(size_of(size), factored.system.data(), factored.stride(),
                             inverse.data(), size_of(size));
      EXPECT_LE((r.transpose() * inverse - Matrix::Identity(size, size)).norm(), 1e-11 * scale);
      EXPECT_EQ(inverse.triangularView<Eigen::StrictlyUpper>().toDenseMatrix().norm(), 0.0);
      kernels::solve_upper(size_of(size), factored.system.data(), factored.stride(), size_of(more),
                           x.data(), size_of(more));
      EXPECT_LE((factored.a * x - factored.b).norm(), 1e-11 * (1.0 + factored.b.norm()));
    }
  }
}

TEST(DenseKernels, AMatrixThatIsNotPositiveDefiniteGivesNoNumbers) {
  Matrix system = -Matrix::Identity(3, 4);
  kernels::factor(3, 4, system.data(), 4);
  EXPECT_TRUE(std::isnan(system(0, 0)));
  EXPECT_TRUE(std::isnan(system(0, 3)));
}

TEST(DenseKernels, AreTheSameToTheBitOnAvx2AndAvx512) {
  if (!plain::machine_has("avx512") || !plain::machine_has("avx2")) {
    GTEST_SKIP() << "AVX2 and AVX-512 are needed";
  }
  const auto compute = [](const char* target) {
    const plain::SimdTargetInScope use(target);
    Rng rng(3, Stream::kTest);
    const Factored factored(rng, 61, 43);
    Matrix inverse(61, 61);
    kernels::invert_factor(61, factored.system.data(), factored.stride(), inverse.data(), 61);
    Matrix x = factored.system.rightCols(43);
    kernels::solve_upper(61, factored.system.data(), factored.stride(), 43, x.data(), 43);
    Matrix square = Matrix::Zero(43, 43);
    multiply(x.transpose(), true, x, square, true, true, false);
    Matrix all(61, 61 + 61 + 43 + 43);
    all.setZero();
    all << factored.r(), inverse, x, Matrix::Zero(61, 43);
    all.block(0, 165, 43, 43) = square.triangularView<Eigen::Upper>();
    return all;
  };
  const Matrix first = compute("avx2");
  const Matrix second = compute("avx512");
  EXPECT_EQ(std::memcmp(first.data(), second.data(), sizeof(double) * size_of(first.size())), 0);
}

}  // namespace
}  // namespace mcnb::dense_kernels_test
