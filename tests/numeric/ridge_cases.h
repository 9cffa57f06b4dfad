#pragma once

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <sstream>
#include <string>

#include "mcnb/numeric/ridge.h"
#include "tests/numeric/plain_network.h"

// Ridge states and a plain version of them, for the tests of small and of large states.
namespace mcnb::ridge_cases {

// Keeps all samples and solves for the weights at once.
struct Batch {
  explicit Batch(std::size_t dimension, double ridge_lambda) : lambda(ridge_lambda) {
    x.resize(0, static_cast<Eigen::Index>(dimension));
  }

  void add(std::span<const float> features, double reward) {
    x.conservativeResize(x.rows() + 1, Eigen::NoChange);
    rewards.conservativeResize(rewards.size() + 1);
    for (std::size_t i = 0; i < features.size(); ++i) {
      x(x.rows() - 1, static_cast<Eigen::Index>(i)) = features[i];
    }
    rewards(rewards.size() - 1) = reward;
  }

  Eigen::MatrixXd matrix() const {
    return lambda * Eigen::MatrixXd::Identity(x.cols(), x.cols()) + x.transpose() * x;
  }
  Eigen::VectorXd weights() const {
    return matrix().colPivHouseholderQr().solve(x.transpose() * rewards);
  }
  double uncertainty(std::span<const float> features) const {
    const Eigen::VectorXd v = vector_of(features);
    return std::sqrt(v.dot(matrix().colPivHouseholderQr().solve(v)));
  }
  double estimate(std::span<const float> features) const {
    return vector_of(features).dot(weights());
  }
  static Eigen::VectorXd vector_of(std::span<const float> features) {
    return Eigen::Map<const Eigen::VectorXf>(features.data(),
                                             static_cast<Eigen::Index>(features.size()))
        .cast<double>();
  }

  double lambda;
  Eigen::MatrixXd x;
  Eigen::VectorXd rewards;
};

inline double relative_error(const Eigen::MatrixXd& found, const Eigen::MatrixXd& expected) {
  return (found - expected).norm() / expected.norm();
}

// The distance of M M^-1 from the identity.
inline double drift(const RidgeState& state) {
  const Eigen::Index d = state.matrix().rows();
  return (state.matrix() * state.inverse() - Eigen::MatrixXd::Identity(d, d)).norm();
}

inline void expect_matches(const RidgeState& state, const Batch& batch, double tolerance) {
  EXPECT_LT(relative_error(state.matrix(), batch.matrix()), tolerance);
  EXPECT_LT(relative_error(state.inverse(), batch.matrix().inverse()), tolerance);
  EXPECT_LT(relative_error(state.weights(), batch.weights()), tolerance);
  EXPECT_LT(relative_error(state.sum(), batch.x.transpose() * batch.rewards), tolerance);
  EXPECT_EQ(state.sample_count(), static_cast<std::uint64_t>(batch.x.rows()));
}

inline std::string save(const RidgeState& state) {
  std::ostringstream out;
  StateWriter writer(out, "test", {.kind = "ridge"});
  state.save(writer);
  writer.finish();
  return out.str();
}

inline RidgeState load(const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "test", {.kind = "ridge"});
  RidgeState state = RidgeState::load(reader);
  reader.finish();
  return state;
}

inline void expect_same_bits(const RidgeState& a, const RidgeState& b) {
  EXPECT_EQ(a.lambda(), b.lambda());
  EXPECT_EQ(a.sample_count(), b.sample_count());
  EXPECT_EQ(a.repair_count(), b.repair_count());
  EXPECT_TRUE((a.matrix().array() == b.matrix().array()).all());
  EXPECT_TRUE((a.inverse().array() == b.inverse().array()).all());
  EXPECT_TRUE((a.sum().array() == b.sum().array()).all());
  EXPECT_TRUE((a.weights().array() == b.weights().array()).all());
}

// Draws samples that all lie in the span of three vectors.
class RankThree {
 public:
  RankThree(Rng& rng, std::size_t dimension) {
    for (int i = 0; i < 3; ++i) {
      basis_.push_back(plain::draw(rng, dimension));
    }
  }

  std::vector<float> draw(Rng& rng) const {
    std::vector<float> x(basis_[0].size(), 0.0F);
    for (const std::vector<float>& direction : basis_) {
      const auto factor = static_cast<float>(rng.normal());
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] += factor * direction[i];
      }
    }
    return x;
  }

 private:
  std::vector<std::vector<float>> basis_;
};

}  // namespace mcnb::ridge_cases
