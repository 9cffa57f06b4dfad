#include "mcnb/theory/best_fit.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Eigen::ArrayXf;
using Eigen::Index;
using Eigen::Map;
using Eigen::VectorXd;
using Eigen::VectorXf;

constexpr std::size_t kPieces = 16;  // parts of every sum, so that it does not depend on threads
constexpr std::size_t kSumGrain = 16'384;  // parameters per piece of a sum
constexpr std::size_t kMemory = 10;        // steps that the curvature is estimated from
constexpr double kSufficient = 1e-4;  // share of the slope by which a step must reduce the loss
constexpr std::size_t kRecent = 10;   // no step may end above the losses of so many last steps
constexpr int kMostCuts = 20;         // times that a step is shortened
constexpr std::size_t kPatience =
    50;  // least number of evaluations without progress before the search ends
constexpr double kEnough = 1e-3;      // a smaller share of the loss is no progress
constexpr double kNegligible = 1e-3;  // nor is a smaller loss: the theorem adds O(1) to S*

// gradient += error * (the gradient of f).
void add_gradient(const NetworkShape& shape, const GradientFactors& factors, float error,
                  std::vector<float>& gradient) {
  const auto width = static_cast<Index>(shape.width);
  const std::size_t padded = shape.padded_width();
  const auto signal = [&](std::uint32_t layer) {  // b_layer
    return Map<const ArrayXf>(factors.signals.data() + (layer - 1) * padded, width);
  };
  const auto add_rows = [&](std::uint32_t layer, std::size_t first, std::span<const float> inputs) {
    float* rows = gradient.data() + shape.layer_offset(layer);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != 0.0F) {
        Map<ArrayXf>(rows + (first + i) * shape.width, width) += error * inputs[i] * signal(layer);
      }
    }
  };
  const auto activations = [&](std::uint32_t layer) {  // h_layer
    return std::span(factors.activations).subspan((layer - 1) * padded, shape.width);
  };
  add_rows(1, factors.features.offset, factors.features.values);
  for (std::uint32_t layer = 2; layer < shape.depth; ++layer) {
    add_rows(layer, 0, activations(layer - 1));
  }
  Map<ArrayXf>(gradient.data() + shape.layer_offset(shape.depth), width) +=
      error * Map<const ArrayXf>(activations(shape.depth - 1).data(), width);
}

// The sum of (f(x) - r)^2 / 2 over all contexts, and its gradient.
class TotalLoss {
 public:
  TotalLoss(const Contexts& contexts, const NetworkShape& shape, ThreadPool& threads)
      : contexts_(contexts), shape_(shape), threads_(threads) {}

  double value(std::span<const float> network) { return sum(network, false); }

  double value_and_gradient(std::span<const float> network, VectorXd& gradient) {
    const double value = sum(network, true);
    gradient.resize(static_cast<Index>(network.size()));
    threads_.parallel_for(network.size(), kSumGrain, [&](std::size_t begin, std::size_t end) {
      const auto first = static_cast<Index>(begin);
      const auto length = static_cast<Index>(end - begin);
      gradient.segment(first, length).setZero();
      for (const std::vector<float>& piece : gradients_) {
        gradient.segment(first, length) +=
            Map<const VectorXf>(piece.data() + begin, length).cast<double>();
      }
    });
    return value;
  }

 private:
  double sum(std::span<const float> network, bool with_gradient) {
    std::array<double, kPieces> values{};
    threads_.parallel_for(kPieces, 1, [&](std::size_t begin, std::size_t end) {
      GradientFactors factors;
      for (std::size_t piece = begin; piece < end; ++piece) {
        if (with_gradient) {
          gradients_[piece].assign(network.size(), 0.0F);
        }
        for (std::size_t i = contexts_.size() * piece / kPieces;
             i < contexts_.size() * (piece + 1) / kPieces; ++i) {
          find_gradient(shape_, network, contexts_.features(i), factors);
          const double error = static_cast<double>(factors.value) - contexts_.rewards[i];
          values[piece] += 0.5 * error * error;
          if (with_gradient) {
            add_gradient(shape_, factors, static_cast<float>(error), gradients_[piece]);
          }
        }
      }
    });
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

  const Contexts& contexts_;
  const NetworkShape& shape_;
  ThreadPool& threads_;
  std::array<std::vector<float>, kPieces>
      gradients_;  // of the pieces; members so that memory is reused
};

// Maps all points of space to the networks of a ball: the point p stands for the network
// centre + 2 p / (1 + |p|^2 / R^2). The map is smooth. For p much smaller than R it is about
// centre + 2 p. It reaches the boundary at |p| = R and turns back beyond. So a search without
// constraints cannot leave the ball, but can end on its boundary.
class Ball {
 public:
  Ball(std::span<const float> centre, double radius)
      : centre_(
            Map<const VectorXf>(centre.data(), static_cast<Index>(centre.size())).cast<double>()),
        square_(radius * radius) {}

  double distance_of(std::span<const float> network) const { return way_to(network).norm(); }
  VectorXd point_of(std::span<const float> network) const {
    const VectorXd way = way_to(network);
    return way / (1.0 + std::sqrt(std::max(0.0, 1.0 - way.squaredNorm() / square_)));
  }
  void network_at(const VectorXd& point, std::vector<float>& network) const {
    Map<VectorXf>(network.data(), centre_.size()) = (centre_ + factor(point) * point).cast<float>();
  }
  // Turns the gradient with respect to the network into that with respect to the point.
  void pull_back(const VectorXd& point, VectorXd& gradient) const {
    const double c = factor(point);
    const double along = c * c * point.dot(gradient) / square_;
    gradient = c * gradient - along * point;
  }

 private:
  VectorXd way_to(std::span<const float> network) const {
    return Map<const VectorXf>(network.data(), centre_.size()).cast<double>() - centre_;
  }
  double factor(const VectorXd& point) const { return 2.0 / (1.0 + point.squaredNorm() / square_); }

  VectorXd centre_;
  double square_;  // of the radius
};

// The curvature, estimated from the last steps (the two loops of L-BFGS).
class Curvature {
 public:
  void add(const VectorXd& step, const VectorXd& change) {
    const double product = step.dot(change);
    if (product > kFlat * step.norm() * change.norm()) {
      if (pairs_.size() == kMemory) {
        pairs_.pop_front();
      }
      scale_ = product / change.squaredNorm();
      pairs_.push_back({step.cast<float>(), change.cast<float>(), 1.0 / product});
    }
  }
  void forget() { pairs_.clear(); }
  bool empty() const { return pairs_.empty(); }

  // The gradient divided by the curvature. Before the first step: the step along the gradient that
  // would bring a linear loss to zero.
  VectorXd newton_step(VectorXd gradient, double loss) const {
    if (pairs_.empty()) {
      const double square = gradient.squaredNorm();
      return square > 0.0 ? VectorXd(gradient * (loss / square)) : gradient;
    }
    std::vector<double> parts(pairs_.size());
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      parts[i] = pairs_[i].inverse * pairs_[i].step.cast<double>().dot(gradient);
      gradient -= parts[i] * pairs_[i].change.cast<double>();
    }
    gradient *= scale_;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double other = pairs_[i].inverse * pairs_[i].change.cast<double>().dot(gradient);
      gradient += (parts[i] - other) * pairs_[i].step.cast<double>();
    }
    return gradient;
  }

 private:
  static constexpr double kFlat = 1e-8;  // least cosine of a step and the change of the gradient
  struct Pair {
    VectorXf step;
    VectorXf change;       // of the gradient
    double inverse = 0.0;  // of their product
  };
  std::deque<Pair> pairs_;
  double scale_ = 1.0;
};

// True if the last quarter of the evaluations made no progress. The window grows with the search,
// so that slow progress does not count as none.
bool has_arrived(std::span<const double> losses) {
  const std::size_t last = losses.size() - 1;
  const std::size_t window = std::max(kPatience, last / 4);
  return last >= window &&
         losses[last - window] - losses[last] <= kEnough * losses[last] + kNegligible;
}

// Looks for the least loss in the ball of a positive radius, by L-BFGS.
class Search {
 public:
  Search(TotalLoss& total, std::span<const float> centre, std::span<const float> start,
         double radius, std::uint64_t most_evaluations)
      : total_(total),
        ball_(centre, radius),
        most_evaluations_(most_evaluations),
        best_{.network = {start.begin(), start.end()}},
        point_(ball_.point_of(start)),
        network_(centre.size()) {
    loss_ = best_.loss = total_.value_and_gradient(start, gradient_);
    ball_.pull_back(point_, gradient_);
    recent_.push_back(loss_);
    least_.push_back(loss_);
  }

  BestFit run() {
    while (has_evaluations() && !best_.converged) {
      const VectorXd direction = curvature_.newton_step(gradient_, loss_);
      if (find_step(direction)) {
        take_step();
      } else if (!curvature_.empty()) {
        curvature_.forget();  // the next step follows the gradient itself
      } else {
        best_.converged = has_evaluations();  // no step along the gradient reduces the loss
      }
      best_.converged = best_.converged || has_arrived(least_);
    }
    best_.distance = ball_.distance_of(best_.network);
    return std::move(best_);
  }

 private:
  bool has_evaluations() const { return best_.evaluations < most_evaluations_; }

  // Tries shorter and shorter steps. Returns false if none reduces the loss enough.
  bool find_step(const VectorXd& direction) {
    const double slope = direction.dot(gradient_);
    // A step may end a little higher than the last ones. Otherwise the search would stop at the
    // first kink of a ReLU at which the gradient of one side leads up the other side.
    const double ceiling = *std::ranges::max_element(recent_);
    double length = 1.0;
    for (int cut = 0; cut < kMostCuts && has_evaluations() && slope > 0.0; ++cut) {
      next_ = point_ - length * direction;
      ball_.network_at(next_, network_);
      ++best_.evaluations;
      const double trial = total_.value_and_gradient(network_, next_gradient_);
      const bool found = trial <= ceiling - kSufficient * length * slope;
      least_.push_back(found ? std::min(trial, least_.back()) : least_.back());
      if (found) {
        loss_ = trial;
        return true;
      }
      // The lowest point of the parabola through the known values, within limits.
      const double rise = trial - loss_ + length * slope;
      length *= rise > 0.0 ? std::clamp(0.5 * length * slope / rise, 0.1, 0.5) : 0.1;
    }
    return false;
  }

  void take_step() {
    ball_.pull_back(next_, next_gradient_);
    curvature_.add(next_ - point_, next_gradient_ - gradient_);
    point_.swap(next_);
    gradient_.swap(next_gradient_);
    if (loss_ < best_.loss) {
      best_.loss = loss_;
      best_.network = network_;
    }
    recent_.push_back(loss_);
    if (recent_.size() > kRecent) {
      recent_.pop_front();
    }
  }

  TotalLoss& total_;
  const Ball ball_;
  const std::uint64_t most_evaluations_;
  BestFit best_;
  Curvature curvature_;
  VectorXd point_;
  VectorXd gradient_;
  VectorXd next_;
  VectorXd next_gradient_;
  std::vector<float> network_;  // at next_
  double loss_ = 0.0;           // at point_
  std::deque<double> recent_;   // losses of the last steps
  std::vector<double> least_;   // least loss so far, after each evaluation
};

}  // namespace

double total_loss(const Contexts& contexts, const NetworkShape& shape,
                  std::span<const float> network, ThreadPool& threads) {
  return TotalLoss(contexts, shape, threads).value(network);
}

BestFit find_best_fit(const Contexts& contexts, const NetworkShape& shape,
                      std::span<const float> centre, std::span<const float> start, double radius,
                      std::uint64_t most_evaluations, ThreadPool& threads) {
  check(!shape.biases && centre.size() == shape.parameter_count() && start.size() == centre.size(),
        "the networks have this shape");
  check(radius >= 0.0 && contexts.size() > 0, "there is a ball, and contexts");
  TotalLoss total(contexts, shape, threads);
  if (radius == 0.0) {
    BestFit best{.network = {start.begin(), start.end()}};
    best.loss = total.value(best.network);
    best.converged = true;
    return best;
  }
  return Search(total, centre, start, radius, most_evaluations).run();
}

}  // namespace mcnb
