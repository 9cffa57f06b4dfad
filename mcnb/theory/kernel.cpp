#include "mcnb/theory/kernel.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXf;
using Eigen::VectorXd;

constexpr std::size_t kGrain = 64;  // contexts per piece of work
constexpr double kNoEigenvalue =
    1e-14;  // relative to the largest; smaller ones are rounding errors of zero

// A A^T of a matrix with one row per context.
MatrixXd row_products(const MatrixXf& rows, ThreadPool& threads) {
  const auto count = static_cast<std::size_t>(rows.rows());
  MatrixXd products(rows.rows(), rows.rows());
  threads.parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    const auto first = static_cast<Index>(begin);
    const auto length = static_cast<Index>(end - begin);
    const MatrixXf piece = rows * rows.middleRows(first, length).transpose();
    products.middleCols(first, length) = piece.cast<double>();
  });
  return products;
}

}  // namespace

MatrixXd inner_products(const Contexts& contexts) {
  const auto count = static_cast<Index>(contexts.size());
  MatrixXd products(count, count);
  for (Index i = 0; i < count; ++i) {
    const Features a = contexts.features(static_cast<std::size_t>(i));
    for (Index j = 0; j <= i; ++j) {
      const Features b = contexts.features(static_cast<std::size_t>(j));
      products(i, j) = products(j, i) = inner_product(a, b);
    }
  }
  return products;
}

MatrixXd tangent_kernel(const MatrixXd& inner_products, std::uint32_t depth) {
  check(depth >= 2, "a network has two weight matrices or more");
  MatrixXd sigma = inner_products;
  MatrixXd kernel = inner_products;
  for (std::uint32_t layer = 1; layer < depth; ++layer) {
    const VectorXd norms = sigma.diagonal().cwiseMax(0.0).cwiseSqrt();
    for (Index j = 0; j < sigma.cols(); ++j) {
      for (Index i = 0; i < sigma.rows(); ++i) {
        const double scale = norms[i] * norms[j];
        // Near a cosine of 1 the angle has only half of its digits, so nearly parallel contexts are
        // treated as parallel.
        const double quotient = scale > 0.0 ? sigma(i, j) / scale : 0.0;
        const double cosine = quotient > 1.0 - kParallel ? 1.0 : std::max(quotient, -1.0);
        const double angle = std::acos(cosine);
        const double both = (std::numbers::pi - angle) / std::numbers::pi;  // 2 E[s'(u) s'(v)]
        // 2 E[s(u) s(v)] of two normal numbers at this angle.
        sigma(i, j) = scale * (std::sin(angle) / std::numbers::pi + both * cosine);
        kernel(i, j) = kernel(i, j) * both + sigma(i, j);
      }
    }
  }
  return 0.5 * (kernel + sigma);
}

MatrixXd gradient_products(const Contexts& contexts, const MatrixXd& inner_products,
                           const NetworkShape& shape, std::span<const float> network,
                           ThreadPool& threads) {
  check(!shape.biases, "the kernel is that of a network without biases");
  const auto count = static_cast<Index>(contexts.size());
  const std::size_t padded = shape.padded_width();
  const std::uint32_t hidden = shape.depth - 1;
  std::vector<MatrixXf> activations(hidden, MatrixXf(count, static_cast<Index>(shape.width)));
  std::vector<MatrixXf> signals = activations;
  threads.parallel_for(contexts.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    GradientFactors factors;
    for (std::size_t i = begin; i < end; ++i) {
      find_gradient(shape, network, contexts.features(i), factors);
      for (std::uint32_t layer = 0; layer < hidden; ++layer) {
        for (std::size_t unit = 0; unit < shape.width; ++unit) {
          const auto row = static_cast<Index>(i);
          const auto column = static_cast<Index>(unit);
          activations[layer](row, column) = factors.activations[layer * padded + unit];
          signals[layer](row, column) = factors.signals[layer * padded + unit];
        }
      }
    }
  });
  // Layer l contributes <b_l, b_l'> <h_{l-1}, h_{l-1}'>. In the last layer b is 1, in the first
  // layer h is x.
  MatrixXd below = inner_products;
  MatrixXd products = MatrixXd::Zero(count, count);
  for (std::uint32_t layer = 0; layer < hidden; ++layer) {
    products += row_products(signals[layer], threads).cwiseProduct(below);
    below = row_products(activations[layer], threads);
  }
  return products + below;
}

KernelFacts study_kernel(const MatrixXd& kernel, std::span<const double> rewards) {
  check(kernel.rows() == static_cast<Index>(rewards.size()) && kernel.rows() > 0,
        "every context has a reward");
  const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(kernel, Eigen::EigenvaluesOnly);
  KernelFacts facts;
  facts.smallest_eigenvalue = eigen.eigenvalues().minCoeff();
  facts.largest_eigenvalue = eigen.eigenvalues().maxCoeff();
  facts.singular = facts.smallest_eigenvalue <=
                   kNoEigenvalue * static_cast<double>(kernel.rows()) * facts.largest_eigenvalue;
  double log_determinant = 0.0;
  for (const double value : eigen.eigenvalues()) {
    log_determinant += std::log1p(std::max(value, 0.0));
  }
  facts.effective_dimension = log_determinant / std::log1p(static_cast<double>(kernel.rows()));
  if (!facts.singular) {
    const Eigen::Map<const VectorXd> h(rewards.data(), static_cast<Index>(rewards.size()));
    facts.complexity = std::sqrt(std::max(0.0, h.dot(kernel.llt().solve(h))));
  }
  return facts;
}

}  // namespace mcnb
