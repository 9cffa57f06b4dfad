#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/numeric/network.h"

namespace mcnb {

// Some inputs of a network, numbered consecutively: a copy of the network then needs only their
// rows of W_1. A step on block features, which are a small part of all inputs, becomes cheap.
class InputSubset {
 public:
  // All inputs, with the numbers they have.
  void use_all() { ranges_.clear(); }
  // The inputs that at least one of the features has. Requires at least one.
  void use_only(std::span<const Features> features);

  bool is_all() const { return ranges_.empty(); }

  // The number of an input in the subset. Requires an input of the subset.
  std::uint32_t number_of(std::uint32_t input) const;
  // The features with the offset that they have in the subset.
  Features renumbered(const Features& features) const {
    return {features.values, number_of(features.offset)};
  }

  // The shape of a network that has only the inputs of the subset.
  NetworkShape shape(const NetworkShape& whole) const;
  // Copies from the parameters of a whole network into `small`, which has shape(whole).
  void extract(const NetworkShape& whole, std::span<const float> parameters,
               std::vector<float>& small) const;
  // Copies `small` back over the parameters that `extract` took it from.
  void write_back(const NetworkShape& whole, std::span<const float> small,
                  std::span<float> parameters) const;

 private:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t number = 0;  // of `begin`, in the subset
  };

  // Calls action(begin, end) for the ranges of whole-network parameters that the copy has, in
  // order.
  template <class Action>
  void for_each_span(const NetworkShape& whole, Action action) const;

  std::vector<Range> ranges_;  // ascending, not overlapping; empty: all inputs
};

}  // namespace mcnb
