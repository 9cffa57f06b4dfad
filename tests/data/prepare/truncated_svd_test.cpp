#include "mcnb/data/prepare/truncated_svd.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "mcnb/base/random.h"

namespace mcnb::truncated_svd_test {
namespace {

using Eigen::MatrixXd;

SparseMatrix random_matrix(Eigen::Index rows, Eigen::Index columns, double density,
                           std::uint64_t seed) {
  Rng rng(seed, Stream::kTest);
  SparseMatrix matrix(rows, columns);
  for (Eigen::Index row = 0; row < rows; ++row) {
    for (Eigen::Index column = 0; column < columns; ++column) {
      if (rng.chance(density)) {
        matrix.insert(row, column) = static_cast<float>(rng.below(10)) - 3.5F;
      }
    }
  }
  return matrix;
}

// A matrix of the given rank with entries that are whole numbers.
SparseMatrix low_rank_matrix(Eigen::Index rows, Eigen::Index columns, Eigen::Index rank,
                             std::uint64_t seed) {
  Rng rng(seed, Stream::kTest);
  MatrixXd left(rows, rank);
  MatrixXd right(rank, columns);
  for (double& value : left.reshaped()) {
    value = static_cast<double>(rng.below(3));
  }
  for (double& value : right.reshaped()) {
    value = static_cast<double>(rng.below(3)) - 1.0;
  }
  return MatrixXd(left * right).sparseView().cast<float>();
}

MatrixXd as_matrix(const std::vector<double>& rows, std::size_t components) {
  return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
      rows.data(), static_cast<Eigen::Index>(rows.size() / components),
      static_cast<Eigen::Index>(components));
}

// Singular values, and the matrix that the leading vectors make up, are those of the dense method.
void expect_leading(const SparseMatrix& matrix, const TruncatedSvd& svd) {
  const Eigen::JacobiSVD<MatrixXd> dense(MatrixXd(matrix.cast<double>()),
                                         Eigen::ComputeThinU | Eigen::ComputeThinV);
  const auto rank = static_cast<Eigen::Index>(svd.rank);
  const double largest = dense.singularValues()[0];
  for (Eigen::Index k = 0; k < static_cast<Eigen::Index>(svd.components); ++k) {
    const double expected = k < dense.singularValues().size() ? dense.singularValues()[k] : 0.0;
    EXPECT_NEAR(svd.values[static_cast<std::size_t>(k)], expected, 1e-7 * largest) << k;
  }
  const Eigen::VectorXd leading = dense.singularValues().head(rank);
  const MatrixXd expected = dense.matrixU().leftCols(rank) * leading.asDiagonal() *
                            dense.matrixV().leftCols(rank).transpose();
  const MatrixXd left = as_matrix(svd.left, svd.components);
  const MatrixXd right = as_matrix(svd.right, svd.components);
  ASSERT_EQ(left.rows(), matrix.rows());
  ASSERT_EQ(right.rows(), matrix.cols());
  const Eigen::VectorXd values = Eigen::Map<const Eigen::VectorXd>(
      svd.values.data(), static_cast<Eigen::Index>(svd.components));
  EXPECT_LT((left * values.asDiagonal() * right.transpose() - expected).norm(), 1e-6 * largest);
  for (const MatrixXd& vectors : {left, right}) {
    const MatrixXd angles = vectors.transpose() * vectors;
    MatrixXd wanted = MatrixXd::Zero(angles.rows(), angles.cols());
    wanted.topLeftCorner(rank, rank).setIdentity();
    EXPECT_LT((angles - wanted).norm(), 1e-7);
  }
}

TEST(TruncatedSvd, FindsWhatTheDenseMethodFinds) {
  ThreadPool threads(1);
  struct Case {
    Eigen::Index rows;
    Eigen::Index columns;
    double density;
  };
  // Up to 64 on the shorter side, and beyond, where Lanczos takes over; tall, wide and square.
  for (const Case& c : {Case{40, 30, 0.3}, Case{12, 200, 0.2}, Case{64, 70, 0.2}, Case{65, 65, 0.2},
                        Case{66, 150, 0.1}, Case{180, 70, 0.1}, Case{120, 120, 0.05}}) {
    SCOPED_TRACE(c.rows);
    const SparseMatrix matrix = random_matrix(c.rows, c.columns, c.density, 1);
    const TruncatedSvd svd = truncated_svd(matrix, 10, threads);
    EXPECT_EQ(svd.rank, 10U);
    expect_leading(matrix, svd);
  }
}

TEST(TruncatedSvd, BeyondTheRankThereIsNothing) {
  ThreadPool threads(1);
  for (const Eigen::Index side : {30, 100}) {  // dense, Lanczos
    for (const Eigen::Index rank : {1, 2, 5, 9, 10, 25}) {
      SCOPED_TRACE(side * 100 + rank);
      const SparseMatrix matrix = low_rank_matrix(side, side + 20, rank, 3);
      const TruncatedSvd svd = truncated_svd(matrix, 10, threads);
      EXPECT_EQ(svd.rank, std::min<std::size_t>(10, static_cast<std::size_t>(rank)));
      expect_leading(matrix, svd);
    }
  }
}

TEST(TruncatedSvd, AMatrixMayBeSmallerThanTheComponentsOrEmpty) {
  ThreadPool threads(1);
  const SparseMatrix small = random_matrix(3, 50, 0.5, 4);
  const TruncatedSvd three = truncated_svd(small, 10, threads);
  EXPECT_EQ(three.rank, 3U);
  expect_leading(small, three);
  const TruncatedSvd none = truncated_svd(SparseMatrix(100, 90), 10, threads);
  EXPECT_EQ(none.rank, 0U);
  EXPECT_EQ(none.left, std::vector<double>(1000, 0.0));
  EXPECT_EQ(none.right, std::vector<double>(900, 0.0));
}

TEST(TruncatedSvd, ASingularValueMayOccurTwice) {
  ThreadPool threads(1);
  SparseMatrix matrix(100, 100);  // two equal blocks, and a diagonal
  const SparseMatrix block = random_matrix(30, 30, 0.4, 5);
  for (Eigen::Index row = 0; row < 30; ++row) {
    for (SparseMatrix::InnerIterator entry(block, row); entry; ++entry) {
      matrix.insert(row, entry.col()) = entry.value();
      matrix.insert(30 + row, 30 + entry.col()) = entry.value();
    }
  }
  for (Eigen::Index i = 60; i < 100; ++i) {
    matrix.insert(i, i) = 1.0F;
  }
  expect_leading(matrix, truncated_svd(matrix, 10, threads));
}

TEST(TruncatedSvd, TheFarthestEntryOfARightVectorIsPositive) {
  ThreadPool threads(1);
  for (const Eigen::Index rows : {40, 100}) {
    const TruncatedSvd svd = truncated_svd(random_matrix(rows, 90, 0.2, 6), 10, threads);
    const MatrixXd right = as_matrix(svd.right, 10);
    for (Eigen::Index k = 0; k < 10; ++k) {
      EXPECT_GT(right.col(k).maxCoeff(), -right.col(k).minCoeff()) << k;
    }
  }
}

TEST(TruncatedSvd, ThreadsChangeNoBit) {
  const SparseMatrix matrix = random_matrix(500, 400, 0.02, 7);
  ThreadPool one(1);
  const TruncatedSvd alone = truncated_svd(matrix, 10, one);
  EXPECT_GT(alone.products, 0U);
  for (const std::size_t count : {2, 8}) {
    ThreadPool threads(count);
    const TruncatedSvd svd = truncated_svd(matrix, 10, threads);
    EXPECT_EQ(svd.values, alone.values);
    EXPECT_EQ(svd.left, alone.left);
    EXPECT_EQ(svd.right, alone.right);
  }
}

}  // namespace
}  // namespace mcnb::truncated_svd_test
