#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/numeric/network_shape.h"

// The inner loops, written once with Highway and compiled for every instruction set; the best one
// of the machine is chosen at run time. Sums of m products run in 16 fixed lanes, in index order
// within a lane, and a fixed tree over the lanes, with fused multiply-add: so AVX2 and AVX-512
// agree bit for bit. SSE4 and the plain fallback have no fused multiply-add and round each product.
//
// Kernels do not check their arguments; the callers in this layer do. They read and write only the
// arrays they are given, so other threads may change neighbouring networks at the same time.
namespace mcnb::kernels {

// Instruction sets that this machine can run, best first: "avx512", "avx2", "sse4", "plain".
std::vector<std::string> simd_targets();

// The instruction set in use.
std::string simd_target();

// Uses another instruction set from now on. Throws Error (kUsage) if it is unknown or the machine
// lacks it. Must not be called while kernels run.
void use_simd_target(const std::string& name);

// Hides every instruction set better than `best`, as if the machine did not have them; `best` need
// not be one that the machine has. Throws Error (kUsage) for an unknown name. Must not be called
// while kernels run.
void limit_simd_targets(const std::string& best);

// Applies the values of the environment variables MCNB_SIMD_LIMIT (limit_simd_targets) and
// MCNB_SIMD (use_simd_target); null or empty means that one is not set. Programs call it once when
// they start, since the library itself reads no variables. Throws Error (kUsage) naming the
// variable.
void use_simd_settings(const char* limit, const char* target);

// Arms that share one range of rows of W_1, packed for `predict`: values[column * arms + arm].
struct ArmTile {
  std::vector<float> values;
  std::uint32_t arms = 0;
  std::uint32_t columns = 0;
  std::uint32_t row = 0;        // first row of W_1 that the columns use
  std::uint32_t first_arm = 0;  // results go to rows first_arm, first_arm + 1, ...
};

// The largest number of arms in a tile, for the instruction set in use.
std::size_t max_tile_arms();

// One network to evaluate, and the column of its results.
struct PredictTarget {
  const float* network;
  std::size_t column;
};

// out[(first_arm + a) * stride + target.column] = f(x_a; target.network) for all tiles and targets.
void predict(const NetworkShape& shape, std::span<const ArmTile> tiles,
             std::span<const PredictTarget> targets, float* out, std::size_t stride);

// f(x; network), x non-zero only at `row` .. `row + x.size()`. Leaves h_1 .. h_{L-1} in
// `activations`, each `shape.padded_width()` long. Equal to `predict`, bit for bit.
float forward(const NetworkShape& shape, const float* network, std::span<const float> x,
              std::uint32_t row, float* activations);

// Computes from the activations b_1 .. b_{L-1} (padded), the factors of df/dW_l = b_l h_{l-1}^T.
void backward(const NetworkShape& shape, const float* network, const float* activations,
              float* signals);

// One sample of an adaptation: its features, and its inner product with the point of interest.
struct AdaptationDraw {
  const float* x;
  std::uint32_t count;  // of features
  std::uint32_t row;    // of W_1 that the first feature uses
  float reward;
  float factor;  // -rate * weight
  float inner;   // x_j . x, with the bias
};

// The effect on one point x of a step of `factor` along the gradient of every draw's loss, all
// taken at `network` (depth 2). In: `sums` = W_1 x and `last` = W_2, both padded with zeros to
// padded_width(). Out: both after the step, without computing a new W_1. Returns what is added to
// the bias of W_2. `room` is working memory; reuse it from call to call.
float adapt(const NetworkShape& shape, const float* network, std::span<const AdaptationDraw> draws,
            float* sums, float* last, std::vector<float>& room);

// Takes the step itself: network += the sum over the draws of factor * (f(x_j) - r_j) df(x_j), all
// gradients taken before the step. Requires depth 2 and at least one draw, all of one block. Does
// not use `inner`.
void batch_step(const NetworkShape& shape, float* network, std::span<const AdaptationDraw> draws,
                std::vector<float>& room);

// An earlier draw of the same adaptation, as another point x sees it: it moved W_1 x by
// inner * move.
struct EarlierMove {
  const float* move;
  float inner;  // x_i . x, without the bias
};

// One sample of an adaptation that leaves W_1 as it is.
struct ImplicitDraw {
  const float* sums;                     // W_1 x before the adaptation, bias included
  std::span<const EarlierMove> earlier;  // of the steps before, without those that x does not see
  float reward;
  float factor;  // -rate * weight
};

// What the steps so far have made of W_2 and of the biases. The vectors are padded with zeros.
struct ImplicitNetwork {
  float* last;      // W_2
  float* biases;    // what was added to those of W_1; only if the network has biases, else null
  float last_bias;  // of W_2, or 0
};

// Takes one step of an adaptation of a network with two layers, from where `network` is, without
// W_1: step * b_1 of each draw goes to its row of `moves`, with which W_1 += the sum over the draws
// of move x^T. All vectors are `padded` long. `room` is working memory; reuse it from call to call.
void implicit_step(std::size_t padded, std::span<const ImplicitDraw> draws,
                   ImplicitNetwork& network, float* moves, std::vector<float>& room);

// sums += the sum over `earlier` of inner * move, all `padded` long.
void add_moves(std::size_t padded, std::span<const EarlierMove> earlier, float* sums);

// W_1 x before the ReLU, bias included, padded with zeros to padded_width().
void first_layer(const NetworkShape& shape, const float* network, std::span<const float> x,
                 std::uint32_t row, float* sums);

// One SGD step of rate `rate` on (f(x) - reward)^2 / 2, for every network.
void sgd_step(const NetworkShape& shape, std::span<float* const> networks, std::span<const float> x,
              std::uint32_t row, float reward, float rate);

// network += factor * df/dtheta, given the factors. Changes only the rows of W_1 that x uses.
void add_gradient(const NetworkShape& shape, float* network, std::span<const float> x,
                  std::uint32_t row, const float* activations, const float* signals, float factor);

// One Adam update of `count` weights with gradients scale * signal[i]. In the first update of a
// weight its moments count as zero, and their memory need not be initialised.
struct AdamRow {
  float* weights;
  float* first_moments;
  float* second_moments;
  const float* signals;
  std::size_t count;
  float scale;
  float step_size;          // rate / (1 - beta_1^t)
  float second_correction;  // 1 / sqrt(1 - beta_2^t)
  bool first_touch;
};
void adam_update(const AdamRow& row);

// Adam's bias corrections at one step count.
struct AdamCorrections {
  float step_size;  // rate / (1 - beta_1^t)
  float second;     // 1 / sqrt(1 - beta_2^t)
};

// Adam updates of consecutive rows of W_1, with gradients error * input * signal[i]. Each row
// counts its steps. A row whose inputs have all been zero is passed over: its moments are zero, and
// its weights would not change. The memory of the moments need not be initialised.
struct AdamRows {
  std::size_t width;
  std::size_t padded;             // length of the moments of a row
  float* weights;                 // rows of `width`
  float* moments;                 // of each row: the first ones, then the second ones
  std::uint32_t* steps;           // by row
  std::uint8_t* has_moved;        // by row: whether it has had an input that was not zero
  std::span<const float> inputs;  // one for each row
  const float* signals;
  float error;
  const AdamCorrections* corrections;  // by step count
};
void adam_update_rows(const AdamRows& rows);

float dot(const float* a, const float* b, std::size_t count);

// words[i] = family.member(members[i]).bits32(), for many members at once.
void first_words(const RngFamily& family, std::span<const std::uint32_t> members,
                 std::uint32_t* words);

}  // namespace mcnb::kernels
