#pragma once

#include <string>

namespace mcnb {

/// What a policy computes on.
enum class Device { kCpu, kCuda };

/// "cpu" or "cuda". Throws Error (kUsage) for another name.
Device parse_device(const std::string& name);
std::string device_name(Device device);

}  // namespace mcnb
