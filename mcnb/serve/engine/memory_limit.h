#pragma once

namespace mcnb {

// Bytes that this process may use: the machine's memory, or the limit of its cgroup if that is
// lower.
double usable_memory();

}  // namespace mcnb
