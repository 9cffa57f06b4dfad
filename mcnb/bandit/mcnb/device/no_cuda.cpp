// Stands for cuda_rounds.cu where CMake has found no compiler for it.

#include "mcnb/bandit/mcnb/device/rounds.h"
#include "mcnb/base/error.h"

namespace mcnb::device {

std::unique_ptr<Rounds> make_cuda_rounds(const RoundSizes&, std::span<const float>) {
  throw Error(ErrorKind::kUsage,
              "device cuda: this program was built without CUDA; expected device=cpu, or a build "
              "with nvcc on the path (docs/GPU.md)");
}

std::string cuda_description() { return "built without CUDA"; }

}  // namespace mcnb::device
