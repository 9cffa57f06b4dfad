#pragma once

#include <Eigen/Dense>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_body.h"
#include "mcnb/bandit/hierarchical/feature_map.h"

namespace mcnb {

// How a body is trained: steps of Adam, started afresh in each training, on batches of samples. The
// rate falls linearly to a tenth.
struct BodyTraining {
  std::uint64_t seed = 1;
  std::uint64_t steps = 500;  // at least
  std::uint64_t passes = 4;   // over the samples, at least
  std::size_t batch = 16;
  double rate = 2e-3;
  // How strongly all that a learner expects is pulled to zero at the arms that any learner has
  // seen: as if it had so many rewards of zero there, per reward that learners have on average.
  double pull = 0.05;
};

// The mean reward of one arm for one learner. Borrows the arm.
struct BodySample {
  std::span<const float> arm;
  std::uint32_t head = 0;  // the learner's column of BodyHeads::own
  float weight = 1.0F;
  float target = 0.0F;  // without what the shared part expects of features that are not own ones
};

// The coefficients of own features that a training starts from.
struct BodyHeads {
  Eigen::VectorXf shared;  // what all learners share; stays as it is
  Eigen::MatrixXf own;     // how each learner differs from it, a column each
};

// The squared error of some samples, as training sees it, and its gradient. `others` names, for
// each sample, the learner that is pulled to zero at the sample's arm.
struct BodyLoss {
  double value = 0.0;
  std::vector<float> weights;  // gradient, in the layout of FeatureBody
  Eigen::MatrixXf own;         // gradient of the heads
};
BodyLoss body_loss(const FeatureMap& map, std::span<const BodySample> samples,
                   std::span<const std::uint32_t> others, const BodyHeads& heads, double pull);

// Trains the body of a map, and learners' heads beside it, by stochastic gradient steps. The result
// depends on nothing but the arguments; `number` addresses the draws of samples. Returns early when
// `cancelled` becomes true. A training that leaves the finite numbers returns the map's body.
std::shared_ptr<const FeatureBody> train_body(const FeatureMap& map,
                                              std::span<const BodySample> samples, BodyHeads heads,
                                              const BodyTraining& training, std::uint64_t number,
                                              const std::atomic<bool>& cancelled);

}  // namespace mcnb
