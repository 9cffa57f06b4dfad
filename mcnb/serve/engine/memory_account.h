#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

// How much memory models, their snapshots and what waits take, against a limit. What models say
// they take is measured now and then (Model::memory_bytes); in between, estimates are added for
// what makes them grow.
//
// What would grow is refused before the limit is reached, new models and new users first, so that
// the rest can go on. A decision is admitted with the memory that its reward may take: rewards,
// the ends of waiting times, and everything else are never refused.
class MemoryAccount {
 public:
  explicit MemoryAccount(double limit) : limit_(limit) {}

  double limit() const { return limit_; }
  double used() const { return models_ + snapshots_ + reserved_ + other_; }

  enum class Use { kModel, kSnapshot, kNewUser, kDecision };
  bool has_room(double bytes, Use use) const;
  // Says that there is no memory, how much is used and what the limit is called.
  ServiceError refusal(const std::string& what) const;

  void grow(std::uint32_t model, double bytes);
  void measure(std::uint32_t model, double bytes);
  void forget(std::uint32_t model);
  void add_snapshot(std::uint32_t model, double bytes);
  void drop_snapshots(std::uint32_t model);
  // For a model that is being made, until a negative number takes it back.
  void reserve(double bytes) { reserved_ += bytes; }
  void set_other(double bytes) { other_ = bytes; }

 private:
  double limit_;
  std::map<std::uint32_t, double> by_model_;
  std::map<std::uint32_t, double> snapshots_of_;
  double models_ = 0.0;
  double snapshots_ = 0.0;
  double reserved_ = 0.0;
  double other_ = 0.0;
};

// "1.5 GB", "20 MB"
std::string memory_text(double bytes);

}  // namespace mcnb
