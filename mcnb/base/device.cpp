#include "mcnb/base/device.h"

#include <fmt/core.h>

#include "mcnb/base/error.h"

namespace mcnb {

Device parse_device(const std::string& name) {
  if (name == "cpu") {
    return Device::kCpu;
  }
  if (name == "cuda") {
    return Device::kCuda;
  }
  throw Error(ErrorKind::kUsage, fmt::format("device: expected cpu or cuda, got \"{}\"", name));
}

std::string device_name(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

}  // namespace mcnb
