#include "mcnb/bandit/hierarchical/learner_pass.h"

#include <cmath>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/bandit/hierarchical/user_lift.h"

namespace mcnb {

using Eigen::Index;
using Eigen::VectorXd;

LearnerPass::LearnerPass(const FeatureMap& map, const PassPrior& prior)
    : map_(map),
      prior_(prior),
      is_lifted_(UserLift::exists(map)),
      own_(map.own_size()),
      features_(sample_size(map)) {}

double LearnerPass::solve_primal(const LearnerSums& learner) {
  learner.weigh(own_, prior_.prior.memory, weighed_);
  columns_ = {.features = own_, .own = own_, .last = own_ + features_};
  system_.setZero(signed_size(own_), signed_size(columns_.last + 1));
  add_product(Operand::of(prior_.turned), Operand::of(weighed_.information),
              {system_, columns_.features}, {.a_is_upper = true});
  add_product(Operand::of(system_).columns_from(columns_.features, own_),
              Operand::of(prior_.factor), {system_}, {.upper = true});
  system_.diagonal().array() += 1.0;
  system_.col(signed_size(columns_.last)) =
      prior_.turned * weighed_.weighted.head(signed_size(own_));
  return factor_system(system_);
}

double LearnerPass::solve_dual(const LearnerSums& learner, const VectorXd& values, bool with_own) {
  const RowMatrix& samples = learner.samples();
  const Index arms = samples.rows();
  const auto count = static_cast<std::size_t>(arms);
  columns_ = {.features = count, .own = count + features_};
  columns_.last = columns_.own + (with_own ? own_ : 0);
  turned_samples_ = samples.leftCols(signed_size(own_)).transpose();
  turned_own_.setZero(signed_size(own_), arms);
  add_product(Operand::of(prior_.turned), Operand::of(turned_samples_), {turned_own_},
              {.a_is_upper = true});
  system_.setZero(arms, signed_size(columns_.last + 1));
  add_product(Operand::of(turned_own_).transposed(), Operand::of(turned_own_), {system_},
              {.upper = true});
  system_.diagonal() += learner.weights(prior_.prior.memory).cwiseInverse();
  system_.middleCols(arms, samples.cols()) = samples;
  if (with_own) {
    system_.middleCols(signed_size(columns_.own), signed_size(own_)) = turned_own_.transpose();
  }
  system_.col(signed_size(columns_.last)) = values;
  return factor_system(system_);
}

// Adds what the learner's rewards say about the shared coefficients before its own ones explain
// any of it, and of a learner in dual form all that they say.
void LearnerPass::add_sums(const LearnerSums& learner, Evidence& to) {
  const auto solved = Operand::of(system_).columns_from(columns_.features, features_);
  const auto half_means = system_.col(signed_size(columns_.last));
  const VectorXd explained =
      system_.middleCols(signed_size(columns_.features), signed_size(features_)).transpose() *
      half_means;
  const ProductKind kind{.subtract = !learner.is_dual(), .upper = true};
  if (!is_lifted_) {
    if (learner.is_dual()) {
      to.weighted += explained;
    } else {
      learner.add_shared(prior_.prior.memory, to.information, to.weighted);
      to.weighted -= explained;
    }
    add_product(solved.transposed(), solved, {to.information}, kind);
    return;
  }
  const UserLift lift(map_, learner.user());
  if (learner.is_dual()) {
    own_information_.setZero(signed_size(own_), signed_size(own_));
  } else {
    own_information_ = weighed_.information;
  }
  add_product(solved.transposed(), solved, {own_information_}, kind);
  lift.add_lifted(own_information_, to.information);
  lift.add_lifted(learner.is_dual() ? explained : VectorXd(weighed_.weighted - explained),
                  to.weighted);
}

void LearnerPass::add_evidence(const LearnerSums& learner, Evidence& to) {
  to.rewards += learner.rewards();
  to.quadratic += learner.scatter();
  to.log_determinant += learner.log_counts();
  if (learner.is_dual()) {
    to.log_determinant += solve_dual(learner, learner.means(), false);
    to.quadratic += system_.col(signed_size(columns_.last)).squaredNorm();
  } else {
    to.log_determinant += solve_primal(learner) - weighed_.log_weights;
    to.quadratic += weighed_.squares - system_.col(signed_size(columns_.last)).squaredNorm();
  }
  add_sums(learner, to);
}

void LearnerPass::add_moments(const LearnerSums& learner, const SharedPosterior& shared,
                              OwnMoments& to) {
  const auto add = [&](const VectorXd& mean, const RowMatrix& covariance) {
    if (learner.is_dual()) {
      solve_dual(learner, learner.means() - learner.samples() * mean, true);
      add_dual_moments(covariance, shared.noise, to);
    } else {
      solve_primal(learner);
      add_primal_moments(mean, covariance, shared.noise, to);
    }
  };
  if (is_lifted_) {
    const UserLift lift(map_, learner.user());
    add(lift.restricted(shared.mean), lift.restricted(shared.covariance, room_));
  } else {
    add(shared.mean, shared.covariance);
  }
  to.learners += 1.0;
}

// The covariance is W^-1 + Y P Y^T with Y = R^-1 X, and the mean R^-1 (R^-T U^T t - X w0).
void LearnerPass::add_primal_moments(const VectorXd& shared_mean,
                                     const RowMatrix& shared_covariance, double noise,
                                     OwnMoments& to) {
  const Index own = signed_size(own_);
  const auto stride = static_cast<std::size_t>(system_.cols());
  auto features = system_.middleCols(own, signed_size(features_));
  auto mean = system_.col(signed_size(columns_.last));
  mean -= features * shared_mean;
  inverse_.resize(own, own);
  kernels::invert_factor(own_, system_.data(), stride, inverse_.data(), own_);
  add_product(Operand::of(inverse_).transposed(), Operand::of(inverse_), {to.covariances},
              {.upper = true, .a_is_upper = true});
  kernels::solve_upper(own_, system_.data(), stride, features_ + 1, system_.data() + own_, stride);
  to.means.noalias() += mean * mean.transpose() / noise;
  product_.setZero(own, signed_size(features_));
  add_product(Operand::of(system_).columns_from(own_, features_), Operand::of(shared_covariance),
              {product_});
  turned_ = features.transpose();
  add_product(Operand::of(product_), Operand::of(turned_), {to.covariances}, {.upper = true});
}

// With E = R^-T Phi_u U, where K = R^T R, the covariance is I - E^T E + E^T X P X^T E, and the mean
// E^T R^-T (means - Phi w0).
void LearnerPass::add_dual_moments(const RowMatrix& shared_covariance, double noise,
                                   OwnMoments& to) {
  const Index arms = system_.rows();
  const auto solved = Operand::of(system_).columns_from(columns_.features, features_);
  const auto own = Operand::of(system_).columns_from(columns_.own, own_);
  const VectorXd mean =
      system_.middleCols(signed_size(columns_.own), signed_size(own_)).transpose() *
      system_.col(signed_size(columns_.last));
  to.means.noalias() += mean * mean.transpose() / noise;
  to.covariances.diagonal().array() += 1.0;
  add_product(own.transposed(), own, {to.covariances}, {.subtract = true, .upper = true});
  product_.setZero(arms, signed_size(features_));
  add_product(solved, Operand::of(shared_covariance), {product_});
  turned_ = system_.middleCols(arms, signed_size(features_)).transpose();
  square_.setZero(arms, arms);
  add_product(Operand::of(product_), Operand::of(turned_), {square_});
  product_.setZero(arms, signed_size(own_));
  add_product(Operand::of(square_), own, {product_});
  add_product(own.transposed(), Operand::of(product_), {to.covariances}, {.upper = true});
}

}  // namespace mcnb
