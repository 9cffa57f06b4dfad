#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <span>

#include "mcnb/base/thread_pool.h"
#include "mcnb/theory/contexts.h"

namespace mcnb {

// <x_i, x_j>.
Eigen::MatrixXd inner_products(const Contexts& contexts);

// The neural tangent kernel of the paper's network with `depth` weight matrices, in closed form:
// what the inner products of gradients at the start tend to as the width grows,
// (H^{L-1} + Sigma^{L-1}) / 2 counting from Sigma^0 = H^0 = <x_i, x_j>. The paper's superscripts
// count one layer more.
Eigen::MatrixXd tangent_kernel(const Eigen::MatrixXd& inner_products, std::uint32_t depth);

// The inner products of the gradients of one network, G^T G, from their factors and those of the
// contexts. Requires a network without biases.
Eigen::MatrixXd gradient_products(const Contexts& contexts, const Eigen::MatrixXd& inner_products,
                                  const NetworkShape& shape, std::span<const float> network,
                                  ThreadPool& threads);

struct KernelFacts {
  double smallest_eigenvalue = 0.0;
  double largest_eigenvalue = 0.0;
  bool singular = false;             // as far as double precision can tell
  double effective_dimension = 0.0;  // log det(I + H) / log(1 + contexts), those of H
  std::optional<double> complexity;  // S = sqrt(h^T H^-1 h); nothing where H is singular
};
KernelFacts study_kernel(const Eigen::MatrixXd& kernel, std::span<const double> rewards);

}  // namespace mcnb
