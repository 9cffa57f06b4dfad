#include "mcnb/bandit/linear/linear_state.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

std::span<const double> weights_of(const RidgeState& ridge) {
  return {ridge.weights().data(), ridge.dimension()};
}

Eigen::Map<const Eigen::VectorXd> as_vector(std::span<const double> values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

}  // namespace

std::size_t LinearState::position_of(std::uint32_t block) const {
  const auto found = std::ranges::lower_bound(entries_, block, {}, &Entry::block);
  return static_cast<std::size_t>(found - entries_.begin());
}

const RidgeState* LinearState::find(std::uint32_t block) const {
  const std::size_t position = position_of(block);
  return position < entries_.size() && entries_[position].block == block ? &entries_[position].ridge
                                                                         : nullptr;
}

std::size_t LinearState::add(std::uint32_t block, std::span<const float> features, double reward) {
  const std::size_t position = position_of(block);
  if (position == entries_.size() || entries_[position].block != block) {
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(position),
                    {block, RidgeState(features.size(), lambda_)});
  }
  entries_[position].ridge.add(features, reward);
  ++samples_;
  return position;
}

double LinearState::squared_distance(const LinearState& other) const {
  double sum = 0.0;
  auto mine = entries_.begin();
  auto theirs = other.entries_.begin();
  while (mine != entries_.end() || theirs != other.entries_.end()) {
    const bool only_mine =
        theirs == other.entries_.end() || (mine != entries_.end() && mine->block < theirs->block);
    const bool only_theirs =
        mine == entries_.end() || (theirs != other.entries_.end() && theirs->block < mine->block);
    if (only_mine) {
      sum += mcnb::squared_norm(weights_of(mine->ridge));
    } else if (only_theirs) {
      sum += mcnb::squared_norm(weights_of(theirs->ridge));
    } else {
      sum += mcnb::squared_distance(weights_of(mine->ridge), weights_of(theirs->ridge));
    }
    mine += only_theirs ? 0 : 1;
    theirs += only_mine ? 0 : 1;
  }
  return sum;
}

double LinearState::squared_norm() const {
  double sum = 0.0;
  for (const Entry& entry : entries_) {
    sum += mcnb::squared_norm(weights_of(entry.ridge));
  }
  return sum;
}

std::size_t LinearState::memory_bytes() const {
  std::size_t bytes = sizeof *this + (entries_.capacity() - entries_.size()) * sizeof entries_[0];
  for (const Entry& entry : entries_) {
    bytes += sizeof entry - sizeof entry.ridge + entry.ridge.memory_bytes();
  }
  return bytes;
}

void LinearState::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(entries_.size()));
  for (const Entry& entry : entries_) {
    writer.write(entry.block);
    entry.ridge.save(writer);
  }
}

void LinearState::load(StateReader& reader, std::span<const std::uint32_t> lengths) {
  const auto count = reader.read<std::uint64_t>();
  if (count > lengths.size()) {
    reader.fail("a linear state has more blocks than there are");
  }
  entries_.clear();
  samples_ = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto block = reader.read<std::uint32_t>();
    if (block >= lengths.size() || (i > 0 && block <= entries_.back().block)) {
      reader.fail("the blocks of a linear state are not in their order");
    }
    entries_.push_back({block, RidgeState::load(reader)});
    const RidgeState& ridge = entries_.back().ridge;
    if (ridge.dimension() != lengths[block] || ridge.lambda() != lambda_) {
      reader.fail("a ridge state does not fit its block");
    }
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // sums of two do not overflow
    if (ridge.sample_count() == 0 || ridge.sample_count() > kMost - samples_) {
      reader.fail("a ridge state has an impossible number of samples");
    }
    samples_ += ridge.sample_count();
  }
}

double squared_distance(std::span<const double> a, std::span<const double> b) {
  check(a.size() == b.size(), "weights of one block have one length");
  return (as_vector(a) - as_vector(b)).squaredNorm();
}

double squared_norm(std::span<const double> a) { return as_vector(a).squaredNorm(); }

double confidence_width(std::uint64_t samples) {
  const double count = 1.0 + static_cast<double>(samples);
  return std::sqrt((1.0 + std::log(count)) / count);
}

double exploration_scale(double alpha, std::uint64_t rewards) {
  const double time = 1.0 + static_cast<double>(rewards);
  return alpha * std::sqrt(std::log(1.0 + time));
}

RidgePrediction predict(const RidgeState* ridge, std::span<const float> features, double lambda) {
  if (ridge != nullptr) {
    return ridge->predict(features);
  }
  double squares = 0.0;
  for (const float value : features) {
    squares += static_cast<double>(value) * value;
  }
  return {0.0, std::sqrt(squares / lambda)};
}

}  // namespace mcnb
