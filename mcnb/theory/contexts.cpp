#include "mcnb/theory/contexts.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

struct Block {
  std::size_t length = 0;
  std::vector<std::size_t> members;  // indices of contexts
};

using Blocks = std::map<std::uint32_t, Block>;  // by offset

// nullopt if some blocks overlap partly.
std::optional<Blocks> find_blocks(const Contexts& contexts) {
  Blocks blocks;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const Contexts::Slice& slice = contexts.slices[i];
    Block& block = blocks.try_emplace(slice.offset, Block{slice.length, {}}).first->second;
    if (block.length != slice.length) {
      return std::nullopt;
    }
    block.members.push_back(i);
  }
  std::size_t end = 0;
  for (const auto& [offset, block] : blocks) {
    if (offset < end) {
      return std::nullopt;
    }
    end = offset + block.length;
  }
  return blocks;
}

// A matrix with one column per member.
MatrixXd columns(const Contexts& contexts, const Block& block) {
  MatrixXd result(static_cast<Index>(block.length), static_cast<Index>(block.members.size()));
  for (std::size_t i = 0; i < block.members.size(); ++i) {
    const Features features = contexts.features(block.members[i]);
    result.col(static_cast<Index>(i)) =
        Eigen::Map<const Eigen::VectorXf>(features.values.data(), result.rows()).cast<double>();
  }
  return result;
}

}  // namespace

double inner_product(const Features& a, const Features& b) {
  const std::size_t begin = std::max(a.offset, b.offset);
  const std::size_t end = std::min(a.offset + a.values.size(), b.offset + b.values.size());
  double sum = 0.0;
  for (std::size_t i = begin; i < end; ++i) {
    sum +=
        static_cast<double>(a.values[i - a.offset]) * static_cast<double>(b.values[i - b.offset]);
  }
  return sum;
}

void Contexts::add(const Features& features, double reward) {
  check_features({.inputs = inputs}, features, "context");
  slices.push_back({values.size(), features.values.size(), features.offset});
  values.insert(values.end(), features.values.begin(), features.values.end());
  rewards.push_back(reward);
}

Contexts collect_contexts(Environment& environment, std::uint64_t rounds) {
  Contexts contexts{.inputs = environment.inputs(), .values = {}, .slices = {}, .rewards = {}};
  for (std::uint64_t t = 0; t < rounds; ++t) {
    const Round& round = environment.next_round();
    for (const Arm& arm : round.arms) {
      contexts.add(arm.features, environment.expected_reward(arm.index));
    }
  }
  return contexts;
}

Contexts distinct_directions(const Contexts& contexts) {
  Contexts kept{.inputs = contexts.inputs, .values = {}, .slices = {}, .rewards = {}};
  std::vector<double> norms;
  std::vector<double> members;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const Features features = contexts.features(i);
    const double norm = std::sqrt(inner_product(features, features));
    std::size_t same = 0;
    while (same < kept.size() &&
           inner_product(kept.features(same), features) < (1.0 - kParallel) * norms[same] * norm) {
      ++same;
    }
    if (same == kept.size()) {
      kept.add(features, contexts.rewards[i]);
      norms.push_back(norm);
      members.push_back(1.0);
    } else {
      members[same] += 1.0;
      kept.rewards[same] += (contexts.rewards[i] - kept.rewards[same]) / members[same];
    }
  }
  return kept;
}

Contexts in_span(const Contexts& contexts, const Contexts& all) {
  const std::optional<Blocks> blocks = find_blocks(all);
  std::optional<Blocks> own = find_blocks(contexts);
  if (!blocks || !own) {
    return contexts;
  }
  Contexts result{.inputs = 0, .values = {}, .slices = {}, .rewards = contexts.rewards};
  result.slices.resize(contexts.size());
  check(std::ranges::all_of(*own, [&](const auto& block) { return blocks->contains(block.first); }),
        "the contexts are some of all");
  for (const auto& [offset, block] : *blocks) {
    const Block& mine = (*own)[offset];
    const std::size_t length = std::min(block.length, block.members.size());
    MatrixXd coordinates(0, 0);
    if (!mine.members.empty()) {
      check(mine.length == block.length, "the contexts are some of all");
      coordinates = columns(contexts, mine);
      if (length < block.length) {
        const Eigen::HouseholderQR<MatrixXd> basis(columns(all, block));
        coordinates.applyOnTheLeft(basis.householderQ().adjoint());
      }
    }
    for (std::size_t i = 0; i < mine.members.size(); ++i) {
      result.slices[mine.members[i]] = {result.values.size(), length, result.inputs};
      for (std::size_t j = 0; j < length; ++j) {
        result.values.push_back(
            static_cast<float>(coordinates(static_cast<Index>(j), static_cast<Index>(i))));
      }
    }
    result.inputs += static_cast<std::uint32_t>(length);
  }
  return result;
}

}  // namespace mcnb
