#include "mcnb/serve/engine/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace mcnb {
namespace {

// The limit in a file of a cgroup; "max", a missing file or a damaged one: none.
double limit_in(const std::string& path, double otherwise) {
  std::ifstream file(path);
  double bytes = 0.0;
  return file >> bytes && bytes > 0.0 ? bytes : otherwise;
}

// The limits of a cgroup and of those around it, below `root`.
double limit_of_group(const std::string& root, std::string group, const std::string& file,
                      double least) {
  for (;;) {
    least = std::min(least, limit_in(root + group + "/" + file, least));
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) {
      return least;
    }
    group.resize(slash);
  }
}

}  // namespace

double usable_memory() {
  double least =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  std::ifstream groups("/proc/self/cgroup");
  // Lines such as "0::/system.slice/mcnb.service", or "9:memory:/..." of the first version.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers.empty()) {
      least = limit_of_group("/sys/fs/cgroup", group, "memory.max", least);
    } else if (controllers.find("memory") != std::string::npos) {
      least = limit_of_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", least);
    }
  }
  return least;
}

}  // namespace mcnb
