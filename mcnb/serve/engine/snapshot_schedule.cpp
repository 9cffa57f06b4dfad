// When models need snapshots, and which rows can be erased after them.

#include <algorithm>

#include "mcnb/serve/engine/model_host.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kFewRows = 1000;  // are replayed too fast to be worth a snapshot

}  // namespace

std::vector<SnapshotJob> ModelHost::forgetting_snapshots() {
  std::vector<SnapshotJob> jobs;
  for (auto& [name, hosted] : models_) {
    if (hosted.forgets) {
      jobs.push_back(make_snapshot(hosted, true));
      hosted.forgets = false;
      hosted.forgetting_under_way = true;
    }
  }
  return jobs;
}

SnapshotJob ModelHost::snapshot(const std::string& model) {
  Hosted& hosted = find(model);
  if (hosted.snapshot_under_way) {
    refuse_request(ErrorCode::kInProgress, "a snapshot of the model is being written");
  }
  return make_snapshot(hosted);
}

SnapshotJob ModelHost::make_snapshot(Hosted& hosted, bool alone) {
  SnapshotJob job{hosted.id, hosted.last_position,
                  std::make_shared<SavedState>(*hosted.model, store_id_, most_copied_,
                                               storage_.snapshots().known_pieces(hosted.id, alone)),
                  alone};
  memory_.add_snapshot(hosted.id, job.state->memory_bytes());
  hosted.snapshot_under_way = true;
  hosted.rows_since_snapshot = 0;
  hosted.seconds_since_snapshot = 0.0;
  return job;
}

std::vector<SnapshotJob> ModelHost::due_snapshots(double seconds) {
  double total = 0.0;
  std::uint64_t rows = 0;
  std::vector<Hosted*> slowest;
  for (auto& [name, hosted] : models_) {
    total += hosted.seconds_since_snapshot;
    rows += hosted.rows_since_snapshot;
    if (hosted.rows_since_snapshot > 0 && !hosted.snapshot_under_way) {
      slowest.push_back(&hosted);
    }
  }
  std::vector<SnapshotJob> jobs;
  if (total <= seconds || rows < kFewRows) {
    return jobs;
  }
  std::ranges::stable_sort(slowest, std::greater<>(), &Hosted::seconds_since_snapshot);
  for (std::size_t i = 0; i < slowest.size() && total > seconds / 2.0; ++i) {
    total -= slowest[i]->seconds_since_snapshot;
    jobs.push_back(make_snapshot(*slowest[i]));
  }
  return jobs;
}

std::vector<SnapshotJob> ModelHost::snapshots_from(const LogPositions& wanted, std::int64_t time) {
  std::vector<SnapshotJob> jobs;
  for (auto& [name, hosted] : models_) {
    const auto found = wanted.find(hosted.id);
    const bool behind = found != wanted.end() &&
                        (hosted.snapshots.size() < 2 || hosted.snapshots.back() < found->second);
    if (behind && !hosted.snapshot_under_way) {
      if (!hosted.snapshots.empty() && hosted.snapshots.front() >= hosted.last_position) {
        log(hosted, Expiry{time, 0}, time);
      }
      jobs.push_back(make_snapshot(hosted));
    }
  }
  return jobs;
}

std::vector<SnapshotJob> ModelHost::last_snapshots() {
  std::vector<SnapshotJob> jobs;
  for (auto& [name, hosted] : models_) {
    if (hosted.model->last_position() > (hosted.snapshots.empty() ? 0 : hosted.snapshots.front())) {
      jobs.push_back(make_snapshot(hosted));
    }
  }
  return jobs;
}

void ModelHost::snapshot_written(std::uint32_t model, std::uint64_t position, bool alone) {
  for (auto& [name, hosted] : models_) {
    if (hosted.id == model) {
      memory_.drop_snapshots(model);
      hosted.snapshot_under_way = false;
      hosted.forgetting_under_way = hosted.forgetting_under_way && !alone;
      std::erase_if(hosted.snapshots, [&](std::uint64_t old) { return alone && old < position; });
      if (std::ranges::count(hosted.snapshots, position) == 0) {
        hosted.snapshots.push_back(position);
        std::ranges::sort(hosted.snapshots, std::greater<>());
      }
      if (hosted.snapshots.size() > 2) {
        hosted.snapshots.resize(2);
      }
    }
  }
}

void ModelHost::snapshot_failed(std::uint32_t model) {
  for (auto& [name, hosted] : models_) {
    if (hosted.id == model) {
      memory_.drop_snapshots(model);
      hosted.snapshot_under_way = false;
      hosted.forgetting_under_way = false;
    }
  }
}

LogPositions ModelHost::erasable() const {
  LogPositions positions;
  for (const auto& [name, hosted] : models_) {
    positions[hosted.id] = hosted.snapshots.size() < 2 ? 0 : hosted.snapshots.back();
  }
  return positions;
}

}  // namespace mcnb
