#include "mcnb/serve/model/computing_kind.h"

#include <fmt/core.h>

#include "mcnb/numeric/kernels.h"

namespace mcnb {

std::string computing_kind() {
  const std::string target = kernels::simd_target();
  // AVX-512 and AVX2 give the same bits.
  return fmt::format("{} {}", kAlgorithmVersion, target == "avx512" ? "avx2" : target);
}

std::string computed_elsewhere(const std::string& model, const std::string& there,
                               const std::string& here) {
  return fmt::format(
      "the last rows of model {} were made by a node of kind \"{}\" (version of the algorithms, "
      "class of the processor) and are not in a snapshot; this node is of kind \"{}\" and would "
      "make another state of them: start a node of kind \"{}\" and stop it by SIGTERM, so that it "
      "leaves a snapshot that every node can take over",
      model, there, here, there);
}

}  // namespace mcnb
