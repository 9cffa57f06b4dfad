#include "mcnb/bandit/neural/confidence_matrix.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <sstream>

#include "tests/bandit/policy_cases.h"

namespace mcnb::confidence_matrix_test {
namespace {

// A network and its gradients at points that all have the same number of features.
struct Source {
  Source(const NetworkShape& network_shape, std::size_t feature_count)
      : shape(network_shape),
        features(feature_count),
        rng(1, Stream::kTest, network_shape.parameter_count()),
        network(plain::draw_network(rng, network_shape)) {}

  // Returns the gradient at a block of features with a random offset.
  GradientFactors draw() {
    points.push_back(plain::draw(rng, features));
    const std::uint64_t offsets = shape.inputs - features + 1;
    GradientFactors factors;
    find_gradient(shape, network, {points.back(), static_cast<std::uint32_t>(rng.below(offsets))},
                  factors);
    return factors;
  }

  Eigen::VectorXd written_out(const GradientFactors& factors) const {
    const std::vector<double> g = plain::expand(shape, factors);
    return Eigen::Map<const Eigen::VectorXd>(g.data(), static_cast<Eigen::Index>(g.size()));
  }

  NetworkShape shape;
  std::size_t features;
  Rng rng;
  std::vector<float> network;
  std::deque<std::vector<float>> points;  // that gradients borrow
};

TEST(ConfidenceMatrix, GivesTheSquaresOfTheExplicitInverse) {
  for (const NetworkShape& shape : {NetworkShape{6, 5, 2, false}, NetworkShape{6, 5, 2, true},
                                    NetworkShape{5, 4, 3, true}, NetworkShape{4, 3, 4, false}}) {
    for (const std::size_t features : {std::size_t{2}, std::size_t{shape.inputs}}) {
      for (const double lambda : {1.0, 1e-3}) {
        SCOPED_TRACE(plain::describe(shape) + ", " + std::to_string(features) + " features");
        ThreadPool threads(2);
        Source source(shape, features);
        ConfidenceMatrix full({.lambda = lambda, .matrix = MatrixForm::kFull}, shape);
        ConfidenceMatrix diagonal({.lambda = lambda, .matrix = MatrixForm::kDiagonal}, shape);
        const auto size = static_cast<Eigen::Index>(shape.parameter_count());
        Eigen::MatrixXd z = lambda * Eigen::MatrixXd::Identity(size, size);
        for (int i = 0; i < 60; ++i) {
          const GradientFactors gradient = source.draw();
          full.add(threads, gradient);
          diagonal.add(threads, gradient);
          z += source.written_out(gradient) * source.written_out(gradient).transpose();
          const std::vector<GradientFactors> ask = {source.draw(), source.draw(), source.draw()};
          std::vector<double> squares(ask.size());
          std::vector<double> by_diagonal(ask.size());
          full.find_squares(threads, ask, squares);
          diagonal.find_squares(threads, ask, by_diagonal);
          for (std::size_t a = 0; a < ask.size(); ++a) {
            const Eigen::VectorXd g = source.written_out(ask[a]);
            const double expected = g.dot(z.ldlt().solve(g));
            ASSERT_NEAR(squares[a], expected, 1e-10 * expected + 1e-12) << i;
            const double expected_diagonal = g.cwiseAbs2().cwiseQuotient(z.diagonal()).sum();
            ASSERT_NEAR(by_diagonal[a], expected_diagonal, 1e-12 * expected_diagonal) << i;
            ASSERT_GE(full.largest_square(ask[a]), expected * (1.0 - 1e-12)) << i;
            ASSERT_GE(diagonal.largest_square(ask[a]), expected_diagonal * (1.0 - 1e-12)) << i;
          }
        }
      }
    }
  }
}

// If all gradients are equal, the bound equals the square.
TEST(ConfidenceMatrix, BoundsASquareExactlyIfAllGradientsAreEqual) {
  const NetworkShape shape{6, 5, 2, false};
  ThreadPool threads(1);
  Source source(shape, 6);
  const GradientFactors gradient = source.draw();
  ConfidenceMatrix matrix({.lambda = 0.1, .matrix = MatrixForm::kFull}, shape);
  const double square = source.written_out(gradient).squaredNorm();
  for (int i = 0; i < 50; ++i) {
    const double expected = square / (0.1 + i * square);
    ASSERT_NEAR(matrix.largest_square(gradient), expected, 1e-7 * square) << i;
    matrix.add(threads, gradient);
  }
}

TEST(ConfidenceMatrix, KeepsItsDigitsOverManyUpdatesOfTheDiagonal) {
  const NetworkShape shape{3, 4, 2, false};
  ThreadPool threads(1);
  Source source(shape, 3);
  ConfidenceMatrix matrix({.lambda = 0.1, .matrix = MatrixForm::kDiagonal}, shape);
  const std::vector<GradientFactors> few = {source.draw(), source.draw(), source.draw()};
  Eigen::VectorXd z = Eigen::VectorXd::Constant(16, 0.1);
  for (std::size_t i = 0; i < 100'000; ++i) {
    matrix.add(threads, few[i % few.size()]);
    z += source.written_out(few[i % few.size()]).cwiseAbs2();
  }
  double square = 0.0;
  matrix.find_squares(threads, {&few[0], 1}, {&square, 1});
  const double expected = source.written_out(few[0]).cwiseAbs2().cwiseQuotient(z).sum();
  EXPECT_NEAR(square, expected, 1e-10 * expected);
}

TEST(ConfidenceMatrix, GivesTheSameBitsHoweverGradientsAreGrouped) {
  for (const MatrixForm form : {MatrixForm::kFull, MatrixForm::kDiagonal}) {
    const NetworkShape shape{8, 6, 2, false};
    ThreadPool threads(2);
    Source source(shape, 4);
    ConfidenceMatrix matrix({.matrix = form}, shape);
    std::vector<GradientFactors> gradients;
    for (int i = 0; i < 20; ++i) {
      matrix.add(threads, source.draw());
      gradients.push_back(source.draw());
    }
    std::vector<double> together(gradients.size());
    std::vector<double> alone(gradients.size());
    matrix.find_squares(threads, gradients, together);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      matrix.find_squares(threads, {&gradients[i], 1}, {&alone[i], 1});
    }
    EXPECT_TRUE(cases::same_bits(together, alone));
  }
}

TEST(ConfidenceMatrix, IsFullUpTo3500ParametersUnlessTold) {
  EXPECT_TRUE(ConfidenceMatrix({}, {.inputs = 34}).is_full());   // 3,500 parameters
  EXPECT_FALSE(ConfidenceMatrix({}, {.inputs = 35}).is_full());  // 3,600
  EXPECT_TRUE(ConfidenceMatrix({.matrix = MatrixForm::kFull}, {.inputs = 35}).is_full());
  EXPECT_FALSE(ConfidenceMatrix({.matrix = MatrixForm::kDiagonal}, {.inputs = 3}).is_full());
  plain::expect_error(ErrorKind::kUsage,
                      "option matrix: expected auto or diagonal for a network of 20100 parameters",
                      [] { ConfidenceMatrix({.matrix = MatrixForm::kFull}, {.inputs = 200}); });
}

TEST(ConfidenceMatrix, RefusesAStateThatDoesNotFit) {
  for (const MatrixForm form : {MatrixForm::kFull, MatrixForm::kDiagonal}) {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    ConfidenceMatrix({.matrix = form}, {.inputs = 5, .width = 4}).save(writer);
    writer.finish();
    for (const std::uint32_t inputs : {3U, 7U}) {
      std::istringstream in(out.str());
      StateReader reader(in, "state", {.kind = "test"});
      ConfidenceMatrix other({.matrix = form}, {.inputs = inputs, .width = 4});
      EXPECT_THROW(other.load(reader), Error);
    }
  }
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  writer.write_all(std::vector<double>(24, -1.0));
  writer.finish();
  std::istringstream in(out.str());
  StateReader reader(in, "state", {.kind = "test"});
  ConfidenceMatrix matrix({.matrix = MatrixForm::kDiagonal}, {.inputs = 5, .width = 4});
  EXPECT_THROW(matrix.load(reader), Error);
}

}  // namespace
}  // namespace mcnb::confidence_matrix_test
