#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <span>

#include "mcnb/base/thread_pool.h"
#include "mcnb/theory/contexts.h"

namespace mcnb {

// The matrix of all <x_i, x_j>.
Eigen::MatrixXd inner_products(const Contexts& contexts);

// The neural tangent kernel of the paper's network with `depth` weight matrices, in closed form. It
// is the limit of the inner products of the initial gradients as the width grows:
// (H^{L-1} + Sigma^{L-1}) / 2 with Sigma^0 = H^0 = <x_i, x_j>. The paper's superscripts are larger
// by one.
Eigen::MatrixXd tangent_kernel(const Eigen::MatrixXd& inner_products, std::uint32_t depth);

// The inner products G^T G of the gradients of one network, computed from the factors of the
// gradients. Requires a network without biases.
Eigen::MatrixXd gradient_products(const Contexts& contexts, const Eigen::MatrixXd& inner_products,
                                  const NetworkShape& shape, std::span<const float> network,
                                  ThreadPool& threads);

struct KernelFacts {
  double smallest_eigenvalue = 0.0;
  double largest_eigenvalue = 0.0;
  bool singular = false;             // to double precision
  double effective_dimension = 0.0;  // log det(I + H) / log(1 + size of H)
  std::optional<double> complexity;  // S = sqrt(h^T H^-1 h); nullopt if H is singular
};
KernelFacts study_kernel(const Eigen::MatrixXd& kernel, std::span<const double> rewards);

}  // namespace mcnb
