#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// An event that takes part in an adaptation. The weights of one adaptation sum to 1.
struct Draw {
  EventId event{};
  float weight = 0.0F;
};

// Inputs begin .. end - 1, and where the first of them lies among the inputs that matter.
struct InputRange {
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t place;
};

// Memory of one adaptation, to be reused.
struct MetaScratch {
  std::vector<kernels::AdaptationDraw> draws;
  std::vector<float> room;               // of the kernels
  std::vector<InputRange> ranges;        // that x and the draws meet; none: all inputs
  std::vector<float> now;                // a network on its way, of those inputs
  std::vector<float> next;               // where its next step ends
  std::vector<GradientFactors> samples;  // at the draws
  GradientFactors adapted;               // at the point of interest, after the adaptation
  GradientFactors start;                 // there, at the start
};

// The meta-learner as one arm sees it after adapting to the arm's cluster.
struct AdaptedMeta {
  float estimate = 0.0F;       // f(x; Theta_i)
  double gradient_move = 0.0;  // |grad f(x; Theta_i) - grad f(x; theta_0)|
};

// Theta: the shared network that adapts to a group of users by gradient steps on their samples.
class MetaLearner {
 public:
  MetaLearner(const NetworkShape& shape, std::vector<float> start);

  std::span<const float> parameters() const { return parameters_; }
  std::span<float> parameters() { return parameters_; }

  // Theta after adapting, seen from x; Theta itself stays as it is. Every step goes down the mean
  // loss of its draws by `rate`, from where the last one ended. With two layers the last step makes
  // no weight matrix: W_1' x and W_2' say it all. Requires at least one step.
  AdaptedMeta seen_from(const Features& x, std::span<const std::vector<Draw>> steps,
                        const Histories& histories, double rate, MetaScratch& scratch) const;

  // Moves Theta by these steps. False, and Theta stays as it is, where it would leave the finite
  // numbers.
  bool adapt(std::span<const std::vector<Draw>> steps, const Histories& histories, double rate,
             MetaScratch& scratch);

 private:
  bool gather(std::span<const Draw> draws, const Histories& histories, double rate,
              const Features* x, MetaScratch& scratch) const;
  // The last step of an adaptation of two layers. Leaves the factors of the adapted gradient at x
  // in `scratch.adapted`.
  void take_short_step(const NetworkShape& shape, const float* network, const Features& x,
                       std::span<const Draw> draws, const Histories& histories, double rate,
                       MetaScratch& scratch) const;
  NetworkShape copy_what_matters(const Features& x, std::span<const std::vector<Draw>> steps,
                                 const Histories& histories, MetaScratch& scratch) const;
  void walk(const NetworkShape& shape, std::vector<float>& network,
            std::span<const std::vector<Draw>> steps, const Histories& histories, double rate,
            MetaScratch& scratch) const;

  NetworkShape shape_;
  std::vector<float> start_;  // theta_0
  std::vector<float> parameters_;
};

}  // namespace mcnb
