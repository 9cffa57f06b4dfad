#include "mcnb/numeric/symmetric_matrix.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cstring>
#include <sstream>

#include "tests/numeric/plain_network.h"

namespace mcnb::symmetric_matrix_test {
namespace {

using kernels::BlockRun;
using kernels::BlockVector;
using Sign = SymmetricMatrix::Sign;

// A vector that owns its values: of random runs of blocks, half of the values in them zero.
struct OwnVector {
  OwnVector(Rng& rng, const SymmetricMatrix& matrix) : values(matrix.padded_size()) {
    const std::size_t blocks = matrix.padded_size() / kernels::kBlock;
    const std::size_t first = static_cast<std::size_t>(rng.below(blocks));
    const std::size_t end = first + 1 + static_cast<std::size_t>(rng.below(blocks - first));
    runs.push_back({first, end});
    if (end + 1 < blocks) {
      runs.push_back({end + 1, blocks});
    }
    for (const BlockRun& run : runs) {
      for (std::size_t i = run.first * kernels::kBlock;
           i < std::min(run.end * kernels::kBlock, matrix.size()); ++i) {
        values[i] = rng.chance(0.5) ? rng.normal() : 0.0;
      }
    }
  }

  BlockVector view() const { return {values.data(), runs}; }
  Eigen::VectorXd dense(std::size_t size) const {
    return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(size));
  }

  AlignedDoubles values;
  std::vector<BlockRun> runs;
};

std::vector<OwnVector> draw(Rng& rng, const SymmetricMatrix& matrix, std::size_t count) {
  std::vector<OwnVector> vectors;
  for (std::size_t i = 0; i < count; ++i) {
    vectors.emplace_back(rng, matrix);
  }
  return vectors;
}

std::vector<BlockVector> views(const std::vector<OwnVector>& vectors) {
  std::vector<BlockVector> all;
  for (const OwnVector& vector : vectors) {
    all.push_back(vector.view());
  }
  return all;
}

AlignedDoubles joined(const std::vector<OwnVector>& vectors) {
  AlignedDoubles all;
  for (const OwnVector& vector : vectors) {
    all.insert(all.end(), vector.values.begin(), vector.values.end());
  }
  return all;
}

bool same_bits(std::span<const double> a, std::span<const double> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Sizes around whole blocks, and one of several tiles, slices and threads.
constexpr std::size_t kSizes[] = {1, 7, 8, 9, 31, 64, 100, 700};

TEST(SymmetricMatrix, ComputesWhatADenseOneDoesOnEveryInstructionSet) {
  for (const std::string& target : kernels::simd_targets()) {
    const plain::SimdTargetInScope use(target);
    for (const std::size_t size : kSizes) {
      SCOPED_TRACE(target + ", size " + std::to_string(size));
      Rng rng(1, Stream::kTest, size);
      ThreadPool threads(2);
      SymmetricMatrix matrix(size, 2.5);
      const auto rows = static_cast<Eigen::Index>(size);
      Eigen::MatrixXd expected = 2.5 * Eigen::MatrixXd::Identity(rows, rows);
      for (const std::size_t count : {1U, 3U, 16U}) {
        for (const Sign sign : {Sign::kPlus, Sign::kMinus}) {
          const std::vector<OwnVector> vectors = draw(rng, matrix, count);
          matrix.add_outer_products(threads, joined(vectors), sign);
          for (const OwnVector& vector : vectors) {
            const Eigen::VectorXd v = vector.dense(size);
            expected += (sign == Sign::kPlus ? 1.0 : -1.0) * v * v.transpose();
          }
        }
      }
      const double scale = expected.norm();
      ASSERT_LE((matrix.dense() - expected).norm(), 1e-14 * scale);

      const std::vector<OwnVector> ask = draw(rng, matrix, 15);
      std::vector<double> squares(ask.size());
      matrix.find_squares(threads, views(ask), squares);
      for (std::size_t i = 0; i < ask.size(); ++i) {
        const Eigen::VectorXd v = ask[i].dense(size);
        ASSERT_NEAR(squares[i], v.dot(expected * v), 1e-13 * scale * (1.0 + v.squaredNorm()));
        AlignedDoubles product(matrix.padded_size(), 7.0);
        matrix.multiply(threads, ask[i].values, product);
        const Eigen::VectorXd found =
            Eigen::Map<const Eigen::VectorXd>(product.data(), static_cast<Eigen::Index>(size));
        ASSERT_LE((found - expected * v).norm(), 1e-13 * scale * (1.0 + v.norm()));
        for (std::size_t pad = size; pad < product.size(); ++pad) {
          ASSERT_EQ(product[pad], 0.0);
        }
      }
    }
  }
}

TEST(SymmetricMatrix, GivesTheSameBitsOnAnyNumberOfThreadsAndInAnyGroups) {
  std::vector<double> expected;
  AlignedDoubles expected_product;
  for (const std::size_t count : {1U, 2U, 8U}) {
    ThreadPool threads(count);
    Rng rng(2, Stream::kTest);
    SymmetricMatrix matrix(700, 1.0);
    matrix.add_outer_products(threads, joined(draw(rng, matrix, 5)), Sign::kPlus);
    const std::vector<OwnVector> ask = draw(rng, matrix, 30);
    std::vector<double> together(ask.size());
    matrix.find_squares(threads, views(ask), together);
    std::vector<double> alone(ask.size());
    for (std::size_t i = 0; i < ask.size(); ++i) {
      const BlockVector view = ask[i].view();
      matrix.find_squares(threads, {&view, 1}, {&alone[i], 1});
    }
    EXPECT_TRUE(same_bits(together, alone));
    AlignedDoubles product(matrix.padded_size());
    matrix.multiply(threads, ask[0].values, product);
    if (count == 1) {
      expected = together;
      expected_product = product;
    }
    EXPECT_TRUE(same_bits(together, expected)) << count << " threads";
    EXPECT_TRUE(same_bits(product, expected_product)) << count << " threads";
  }
}

TEST(SymmetricMatrix, IsTheSameToTheBitOnAvx2AndAvx512) {
  if (!plain::machine_has("avx512") || !plain::machine_has("avx2")) {
    GTEST_SKIP() << "AVX2 and AVX-512 are needed";
  }
  std::vector<std::vector<double>> results;
  for (const char* target : {"avx2", "avx512"}) {
    const plain::SimdTargetInScope use(target);
    ThreadPool threads(1);
    Rng rng(3, Stream::kTest);
    SymmetricMatrix matrix(300, 1.0);
    matrix.add_outer_products(threads, joined(draw(rng, matrix, 9)), Sign::kMinus);
    const std::vector<OwnVector> ask = draw(rng, matrix, 6);
    std::vector<double> found(ask.size());
    matrix.find_squares(threads, views(ask), found);
    AlignedDoubles product(matrix.padded_size());
    matrix.multiply(threads, ask[0].values, product);
    found.insert(found.end(), product.begin(), product.end());
    results.push_back(found);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(SymmetricMatrix, TakesOverADenseOne) {
  Rng rng(4, Stream::kTest);
  Eigen::MatrixXd any(21, 21);
  for (double& value : any.reshaped()) {
    value = rng.normal();
  }
  const Eigen::MatrixXd symmetric = any + any.transpose();
  SymmetricMatrix matrix(21, 1.0);
  matrix.assign(symmetric);
  EXPECT_TRUE(matrix.dense() == symmetric);
  ThreadPool threads(1);
  const OwnVector v(rng, matrix);
  double square = 0.0;
  const BlockVector view = v.view();
  matrix.find_squares(threads, {&view, 1}, {&square, 1});
  EXPECT_NEAR(square, v.dense(21).dot(symmetric * v.dense(21)), 1e-12);
}

TEST(SymmetricMatrix, AddsAnotherOneAndToTheDiagonal) {
  ThreadPool threads(1);
  for (const std::size_t size : kSizes) {
    Rng rng(5, Stream::kTest, size);
    SymmetricMatrix a(size, 2.0);
    SymmetricMatrix b(size, 3.0);
    a.add_outer_products(threads, joined(draw(rng, a, 2)), Sign::kPlus);
    b.add_outer_products(threads, joined(draw(rng, b, 3)), Sign::kPlus);
    const Eigen::MatrixXd before = a.dense();
    a.add(b, Sign::kPlus);
    EXPECT_TRUE(a.dense() == before + b.dense());
    const Eigen::MatrixXd sum = a.dense();
    a.add(b, Sign::kMinus);
    EXPECT_TRUE(a.dense() == sum - b.dense());
    const Eigen::MatrixXd difference = a.dense();
    a.add_to_diagonal(-0.75);
    EXPECT_TRUE(a.dense() ==
                difference - 0.75 * Eigen::MatrixXd::Identity(before.rows(), before.cols()));
  }
}

TEST(SymmetricMatrix, RefusesAStateThatDoesNotFit) {
  const auto load = [](std::size_t size, double value) {
    SymmetricMatrix saved(9, value);
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    saved.save(writer);
    writer.finish();
    std::istringstream in(out.str());
    StateReader reader(in, "state", {.kind = "test"});
    SymmetricMatrix(size, 1.0).load(reader);
  };
  EXPECT_NO_THROW(load(9, 1.0));
  EXPECT_NO_THROW(load(16, 1.0));  // as many blocks
  EXPECT_THROW(load(17, 1.0), Error);
  EXPECT_THROW(load(8, 1.0), Error);
  EXPECT_THROW(load(9, std::nan("")), Error);
}

// ---- the weights of diagonal matrices

TEST(MatrixKernels, WeighAndShrinkLikePlainLoops) {
  Rng rng(5, Stream::kTest);
  for (const std::string& target : kernels::simd_targets()) {
    const plain::SimdTargetInScope use(target);
    for (const std::size_t width : {1U, 3U, 8U, 13U, 100U}) {
      const std::size_t height = 1 + static_cast<std::size_t>(rng.below(12));
      std::vector<double> rows(height);
      std::vector<double> columns(width);
      std::vector<double> weights(height * width);
      for (std::vector<double>* const values : {&rows, &columns, &weights}) {
        for (double& value : *values) {
          value = rng.uniform() + 0.01;
        }
      }
      std::vector<double> expected = weights;
      double sum = 0.0;
      for (std::size_t i = 0; i < height; ++i) {
        for (std::size_t j = 0; j < width; ++j) {
          double& weight = expected[i * width + j];
          sum += rows[i] * columns[j] * weight;
          weight = 1.0 / (1.0 / weight + rows[i] * columns[j]);
        }
      }
      EXPECT_NEAR(kernels::weigh(rows, columns, weights.data()), sum, 1e-13 * sum) << target;
      kernels::shrink(rows, columns, weights.data());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        ASSERT_NEAR(weights[i], expected[i], 1e-15 * expected[i] + 1e-15) << target;
      }
    }
  }
}

}  // namespace
}  // namespace mcnb::symmetric_matrix_test
