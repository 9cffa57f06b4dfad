#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/event_sums.h"
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

  // Of an implicit adaptation; `features` then has those of all draws so far.
  std::vector<std::uint32_t> blocks;  // the offset of each draw
  std::vector<kernels::ImplicitDraw> implicit_draws;
  std::vector<kernels::EarlierMove> earlier;  // of each draw of a step, one after the other
  std::vector<std::size_t> ends;              // where the part of each draw in `earlier` ends
  std::vector<float> moves;                   // of all draws so far, padded
  std::vector<float> bias_moves;              // padded
  std::vector<float> sums;                    // of draws whose sums are not kept, padded

  void note_reward(float reward) {
    has_ordinary_rewards = has_ordinary_rewards && std::abs(reward) <= kOrdinaryReward;
  }
  std::size_t memory_bytes() const;
};

// What an arm needs to know of Theta_i, the meta-learner adapted to the arm's cluster.
struct AdaptedMeta {
  float estimate = 0.0F;       // f(x; Theta_i)
  double gradient_move = 0.0;  // |grad f(x; Theta_i) - grad f(x; theta_0)|
  std::uint64_t steps = 0;     // backward passes of the adaptation, one for each draw
};

// How an adaptation keeps account of the network that it adapts. Both ways compute the same numbers
// up to rounding.
enum class Bookkeeping {
  kBySize,    // the cheaper of the two, by the sizes of features, network and draws
  kExplicit,  // a copy of the network moves from step to step
  kImplicit,  // the weights of the first layer stay; inner products say what the draws do to it
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

  std::size_t memory_bytes() const;

  std::span<const float> parameters() const { return parameters_; }
  // To be written before the next call of another function.
  std::span<float> parameters() {
    sums_.clear();
    return parameters_;
  }

  // Only for adapted_at, and only with two layers; `adapt`, which writes the weights, is explicit.
  void set_bookkeeping(Bookkeeping bookkeeping) { bookkeeping_ = bookkeeping; }
  // From now on keeps what Theta's first layer makes of stored events, until Theta changes, if
  // events are as long as x and that is long beside what is kept. Call it again when the histories
  // have grown; then `forget` must be called for each event that is new in its slot.
  void keep_sums(const Histories& histories, const Features& x);
  void forget(EventId event) { sums_.forget(event); }

  // f(x; Theta), without any adaptation.
  float estimate(const Features& x) const;

  // SGD_Meta for one arm: how Theta looks at x after these steps. Theta itself does not change.
  // With two layers the last step computes no weight matrix, because W_1 x and W_2 suffice at x.
  // Requires at least one step.
  AdaptedMeta adapted_at(const Features& x, std::span<const std::vector<Draw>> steps,
                         const Histories& histories, double rate, MetaScratch& scratch) const;

  // The rest of `adapted_at` for two layers and one step, if W_1 x and W_2 after the step were
  // computed elsewhere, padded. Returns nullopt if the step needs damping.
  std::optional<AdaptedMeta> adapted_from(const Features& x, std::span<const float> sums,
                                          std::span<const float> last, bool has_ordinary_rewards,
                                          double rate, MetaScratch& scratch) const;
  // Whether `adapt` accepts Theta after steps that were taken elsewhere without damping.
  bool accepts(const Features& x, std::span<const float> moved, bool has_ordinary_rewards,
               double rate, MetaScratch& scratch) const;

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
  bool is_cheaper_implicitly(const Features& x, std::span<const std::vector<Draw>> steps,
                             const Histories& histories, MetaScratch& scratch) const;
  void adapt_implicitly(const Features& x, std::span<const std::vector<Draw>> steps,
                        const Histories& histories, double rate, MetaScratch& scratch) const;
  void prepare_implicit_draws(std::span<const Draw> draws, const Histories& histories, double rate,
                              MetaScratch& scratch) const;
  void add_earlier(const Features& x, std::size_t count, MetaScratch& scratch) const;
  void first_sums(const Features& x, float* sums) const;
  static float inner_product(const Features& a, const Features& b);
  bool is_long(const Features& x) const { return x.values.size() >= 2 * shape_.padded_width(); }
  static void look_at(const NetworkShape& shape, float last_bias, GradientFactors& adapted);
  void take_last_step(const Network& network, const Features& x, std::span<const Draw> draws,
                      const Histories& histories, double rate, MetaScratch& scratch) const;

  NetworkShape shape_;
  std::vector<float> start_;  // theta_0
  std::vector<float> parameters_;
  Bookkeeping bookkeeping_ = Bookkeeping::kBySize;
  bool keeps_sums_ = false;
  EventSums sums_;  // of parameters_
};

}  // namespace mcnb
