#include "mcnb/bandit/confidence_matrix.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <sstream>

#include "tests/bandit/policy_cases.h"

namespace mcnb {
namespace {

using Form = ConfidenceMatrix::Form;

// A gradient as the whole vector that it stands for.
Eigen::VectorXd whole(const SparseGradient& gradient, std::size_t parameters) {
  Eigen::VectorXd vector = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(parameters));
  for (std::size_t i = 0; i < gradient.values.size(); ++i) {
    const std::size_t place = i < gradient.first_count
                                  ? gradient.first_start + i
                                  : gradient.rest_start + i - gradient.first_count;
    vector[static_cast<Eigen::Index>(place)] = gradient.values[i];
  }
  return vector;
}

// One with a run of 6 somewhere in the first 24 parameters and one of 10 behind them, half zeros.
SparseGradient draw_gradient(Rng& rng) {
  SparseGradient gradient{.first_start = 6 * static_cast<std::size_t>(rng.below(4)),
                          .first_count = 6,
                          .rest_start = 24};
  for (std::size_t i = 0; i < 16; ++i) {
    gradient.values.push_back(rng.chance(0.5) ? rng.normal() : 0.0);
  }
  return gradient;
}

TEST(SparseGradient, HoldsWhatTheTextbookGradientHolds) {
  Rng rng(1, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(9)) {
    for (const std::uint32_t offset : {0U, 3U, 6U}) {
      const plain::PlainNetwork network(shape, plain::draw_network(rng, shape));
      const std::vector<float> parameters(network.parameters().begin(), network.parameters().end());
      const std::vector<float> x = plain::draw(rng, offset == 0 ? 9 : 3);
      GradientFactors factors;
      find_gradient(shape, parameters, {x, offset}, factors);
      SparseGradient gradient;
      expand_gradient(shape, factors, gradient);
      const std::vector<double> expected = plain::expand(shape, factors);
      const Eigen::VectorXd found = whole(gradient, shape.parameter_count());
      ASSERT_EQ(expected.size(), static_cast<std::size_t>(found.size()));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[static_cast<Eigen::Index>(i)], expected[i]) << plain::describe(shape);
      }
    }
  }
}

TEST(ConfidenceMatrix, IsTheExplicitInverseAfterManyUpdates) {
  for (const double lambda : {1.0, 1e-3}) {
    Rng rng(2, Stream::kTest);
    ConfidenceMatrix matrix(34, lambda, Form::kWhole);
    ConfidenceMatrix diagonal(34, lambda, Form::kDiagonal);
    Eigen::MatrixXd z = lambda * Eigen::MatrixXd::Identity(34, 34);
    for (int i = 1; i <= 5000; ++i) {
      const SparseGradient gradient = draw_gradient(rng);
      const Eigen::VectorXd g = whole(gradient, 34);
      matrix.add(gradient);
      diagonal.add(gradient);
      z += g * g.transpose();
      if (i < 50 || i % 1000 == 0) {
        const std::vector<SparseGradient> ask = {draw_gradient(rng), draw_gradient(rng)};
        std::vector<double> squares(2);
        std::vector<double> diagonal_squares(2);
        matrix.find_squares(ask, squares);
        diagonal.find_squares(ask, diagonal_squares);
        for (std::size_t a = 0; a < 2; ++a) {
          const Eigen::VectorXd v = whole(ask[a], 34);
          const double expected = v.dot(z.ldlt().solve(v));
          const double by_diagonal = v.cwiseAbs2().cwiseQuotient(z.diagonal()).sum();
          ASSERT_NEAR(squares[a], expected, 1e-10 * expected + 1e-14 / lambda) << i;
          ASSERT_NEAR(diagonal_squares[a], by_diagonal, 1e-12 * by_diagonal) << i;
        }
      }
    }
  }
}

TEST(ConfidenceMatrix, GivesTheSameBitsHoweverGradientsAreGrouped) {
  Rng rng(3, Stream::kTest);
  for (const Form form : {Form::kWhole, Form::kDiagonal}) {
    ConfidenceMatrix matrix(34, 1.0, form);
    std::vector<SparseGradient> gradients;
    for (int i = 0; i < 20; ++i) {
      matrix.add(draw_gradient(rng));
      gradients.push_back(draw_gradient(rng));
    }
    std::vector<double> together(gradients.size());
    std::vector<double> alone(gradients.size());
    matrix.find_squares(gradients, together);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      matrix.find_squares({&gradients[i], 1}, {&alone[i], 1});
    }
    EXPECT_TRUE(cases::same_bits(together, alone));
  }
}

TEST(ConfidenceMatrix, RefusesAStateOfAnotherSize) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  ConfidenceMatrix(5, 1.0, Form::kWhole).save(writer);
  writer.finish();
  for (const std::size_t parameters : {4U, 6U}) {
    std::istringstream in(out.str());
    StateReader reader(in, "state", {.kind = "test"});
    ConfidenceMatrix other(parameters, 1.0, Form::kWhole);
    EXPECT_THROW(other.load(reader), Error);
  }
}

}  // namespace
}  // namespace mcnb
