#include "mcnb/serve/engine/memory_account.h"

#include <fmt/core.h>

#include <algorithm>

namespace mcnb {
namespace {

// Shares of the limit up to which each use is admitted.
constexpr double kForNewUsers = 0.95;
constexpr double kForDecisions = 1.0;

}  // namespace

std::string memory_text(double bytes) {
  return bytes >= 1e9 ? fmt::format("{:.1f} GB", bytes / 1e9)
                      : fmt::format("{:.1f} MB", bytes / 1e6);
}

bool MemoryAccount::has_room(double bytes, Use use) const {
  const double share = use == Use::kDecision ? kForDecisions : kForNewUsers;
  return used() + bytes <= share * limit_;
}

ServiceError MemoryAccount::refusal(const std::string& what) const {
  return {ErrorCode::kMemoryFull, fmt::format("{}: {} of {} are used (memory_gigabytes)", what,
                                              memory_text(used()), memory_text(limit_))};
}

void MemoryAccount::grow(std::uint32_t model, double bytes) {
  by_model_[model] += bytes;
  models_ += bytes;
}

void MemoryAccount::measure(std::uint32_t model, double bytes) {
  double& own = by_model_[model];
  models_ += bytes - own;
  own = bytes;
}

void MemoryAccount::forget(std::uint32_t model) {
  measure(model, 0.0);
  by_model_.erase(model);
}

void MemoryAccount::add_snapshot(std::uint32_t model, double bytes) {
  snapshots_of_[model] += bytes;
  snapshots_ += bytes;
}

void MemoryAccount::drop_snapshots(std::uint32_t model) {
  const auto found = snapshots_of_.find(model);
  if (found != snapshots_of_.end()) {
    snapshots_ -= found->second;
    snapshots_of_.erase(found);
  }
}

}  // namespace mcnb
