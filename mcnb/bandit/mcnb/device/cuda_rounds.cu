// The rounds on a GPU. In its place no_cuda.cpp is built where there is no compiler for it.

#include "mcnb/bandit/mcnb/device/cuda_executor.h"
#include "mcnb/bandit/mcnb/device/device_contents.h"

namespace mcnb::device {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Why there is no GPU; empty if there is one.
std::string why_not() {
  int driver = 0;
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "this machine has no NVIDIA driver: expected a GPU with a driver for CUDA " +
           version_text(runtime / 1000 * 1000) + " or later";
  }
  if (driver / 1000 < runtime / 1000) {
    return "the driver is for CUDA " + version_text(driver) + ", expected " +
           version_text(runtime / 1000 * 1000) + " or later: update the driver";
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return std::string("the driver finds no GPU (") + cudaGetErrorString(error) +
           "): expected one in the output of nvidia-smi, and in CUDA_VISIBLE_DEVICES if that is "
           "set";
  }
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, run_threads<FillLearners>) != cudaSuccess) {
    cudaGetLastError();
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    const std::string capability =
        std::to_string(properties.major) + std::to_string(properties.minor);
    return std::string("this program has no code for ") + properties.name +
           ": expected a build with MCNB_CUDA_ARCHITECTURES=" + capability;
  }
  return "";
}

}  // namespace

std::string cuda_description() {
  const std::string why = why_not();
  if (!why.empty()) {
    return why;
  }
  cudaDeviceProp properties;
  expect_success(cudaGetDeviceProperties(&properties, 0), "properties");
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return std::string(properties.name) + ", driver for CUDA " + version_text(driver);
}

std::unique_ptr<Rounds> make_cuda_rounds(const RoundSizes& sizes, std::span<const float> start) {
  if (const std::string why = why_not(); !why.empty()) {
    throw Error(ErrorKind::kSystem, "device cuda: " + why + "; or use device=cpu");
  }
  return std::make_unique<DeviceRounds<CudaExecutor>>(CudaExecutor(), sizes, start);
}

}  // namespace mcnb::device
