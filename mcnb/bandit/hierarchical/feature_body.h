#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network_shape.h"

namespace mcnb {

// A hidden layer relu(W x + b), whose units are features that all learners share. Never changes:
// training makes a new one (body_training.h).
//
// The weights are in single precision, in the layout of NetworkShape with biases: row i of W holds
// the weights from input i to all units, and the biases are the last row.
class FeatureBody {
 public:
  // A random body; equal arguments give equal weights on every machine. Requires both above 0.
  FeatureBody(std::size_t inputs, std::size_t units, std::uint64_t seed);
  // A body of these weights.
  FeatureBody(const FeatureBody& like, std::span<const float> weights);

  std::size_t inputs() const { return shape_.inputs; }
  std::size_t units() const { return shape_.width; }
  // A network of one output whose first layer is the body.
  const NetworkShape& shape() const { return shape_; }
  std::span<const float> weights() const { return weights_; }

  // Writes the units of an arm to out[0 .. units()). Does not depend on what else is expanded.
  void expand(std::span<const float> arm, double* out) const;

  bool operator==(const FeatureBody& other) const;
  std::size_t memory_bytes() const { return weights_.capacity() * sizeof(float); }
  void save(StateWriter& writer) const { writer.write_all(std::span(weights_)); }
  // The saved body, which has the shape of this one.
  FeatureBody load(StateReader& reader) const;

 private:
  NetworkShape shape_;
  std::vector<float> weights_;  // W and b
};

}  // namespace mcnb
