#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/input_subset.h"
#include "mcnb/bandit/mcnb/member_draws.h"
#include "mcnb/numeric/damped_step.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// Memory of one adaptation, to be reused.
struct MetaScratch {
  std::vector<kernels::AdaptationDraw> draws;
  std::vector<float> kernel_memory;
  std::vector<Features> features;        // of x and of all draws
  InputSubset inputs;                    // those that `network` has
  std::vector<float> network;            // Theta after the steps so far
  std::vector<float> next_network;       // `network` with a part of the present step
  std::vector<GradientFactors> samples;  // the gradients at the draws of one step
  std::vector<float> before;             // `network` before a step that may be damped
  std::vector<float> direction;          // of a damped step
  std::vector<float> activations;
  bool has_ordinary_rewards = true;  // all draws so far
  GradientFactors adapted;           // the gradient at x after the adaptation
  GradientFactors start;             // the gradient at x of theta_0

  std::size_t memory_bytes() const;
};

// What an arm needs to know of Theta_i, the meta-learner adapted to the arm's cluster.
struct AdaptedMeta {
  float estimate = 0.0F;       // f(x; Theta_i)
  double gradient_move = 0.0;  // |grad f(x; Theta_i) - grad f(x; theta_0)|
  std::uint64_t steps = 0;     // backward passes of the adaptation, one for each draw
};

// Theta: the shared network that adapts to a group of users by gradient steps on their samples.
//
// An adaptation has steps; each of them goes down the mean loss of its draws, by `rate` times the
// gradient, from where the step before ended. If that leads to extraordinary numbers, or a reward
// is beyond [-1, 1], the adaptation is repeated with damping: a step that would increase the mean
// loss of its draws is shortened until it does not (numeric/damped_step.h).
class MetaLearner {
 public:
  MetaLearner(const NetworkShape& shape, std::vector<float> start);

  std::span<const float> parameters() const { return parameters_; }
  std::span<float> parameters() { return parameters_; }

  // f(x; Theta), without any adaptation.
  float estimate(const Features& x) const;

  // SGD_Meta for one arm: how Theta looks at x after these steps. Theta itself does not change.
  // With two layers the last step computes no weight matrix, because W_1 x and W_2 suffice at x.
  // Requires at least one step.
  AdaptedMeta adapted_at(const Features& x, std::span<const std::vector<Draw>> steps,
                         const Histories& histories, double rate, MetaScratch& scratch) const;

  // SGD_Meta for the chosen arm x: moves Theta by these steps. Returns false, and leaves Theta as
  // it is, if Theta would get numbers that are not finite.
  bool adapt(const Features& x, std::span<const std::vector<Draw>> steps,
             const Histories& histories, double rate, MetaScratch& scratch);

 private:
  // The network of an adaptation: Theta, or a copy that has only some of the inputs.
  struct Network {
    NetworkShape shape;
    const float* parameters;
  };
  // Where the mean loss of a step's draws goes down from.
  struct Descent {
    StepSize size;
    double loss = 0.0;
    double scale = 0.0;  // the largest error of a draw
  };

  void copy_network(const Features& x, std::span<const std::vector<Draw>> steps,
                    const Histories& histories, MetaScratch& scratch) const;
  AdaptedMeta plain_at(const Features& x, std::span<const std::vector<Draw>> steps,
                       const Histories& histories, double rate, MetaScratch& scratch) const;
  bool take_damped_steps(std::span<const std::vector<Draw>> steps, const Histories& histories,
                         double rate, MetaScratch& scratch) const;
  bool take_damped_step(const std::vector<Draw>& draws, const Histories& histories, double rate,
                        MetaScratch& scratch) const;
  Descent find_descent(std::span<const Draw> draws, const Histories& histories, double rate,
                       MetaScratch& scratch) const;
  double mean_loss(std::span<const Draw> draws, const Histories& histories,
                   MetaScratch& scratch) const;
  bool prepare_draws(std::span<const Draw> draws, const Histories& histories, double rate,
                     const Features* x, MetaScratch& scratch) const;
  void take_steps(std::span<const std::vector<Draw>> steps, const Histories& histories, double rate,
                  MetaScratch& scratch) const;
  void take_step(const NetworkShape& shape, std::span<const Draw> draws, const Histories& histories,
                 double rate, MetaScratch& scratch) const;
  void take_last_step(const Network& network, const Features& x, std::span<const Draw> draws,
                      const Histories& histories, double rate, MetaScratch& scratch) const;

  NetworkShape shape_;
  std::vector<float> start_;  // theta_0
  std::vector<float> parameters_;
};

}  // namespace mcnb
