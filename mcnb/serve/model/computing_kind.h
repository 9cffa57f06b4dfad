#pragma once

#include <string>

namespace mcnb {

// The version of all computations by which events change models. Raise it when the same events give
// other bits than before; nodes of the old and the new version then do not replay each other's
// rows.
inline constexpr int kAlgorithmVersion = 1;

// What the bits of a state depend on beside the events: the version of the algorithms and the class
// of the processor, such as "1 avx2". Nodes of one kind compute the same.
std::string computing_kind();

// What is said of a model that a node of kind `here` cannot take over from one of kind `there`.
std::string computed_elsewhere(const std::string& model, const std::string& there,
                               const std::string& here);

}  // namespace mcnb
