#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/serve/store/storage.h"

// A storage in memory that fails when a test wants it to. It keeps the contract of storage.h. Its
// contents outlive the object: another storage can be opened on the same disk, as after a restart.
namespace mcnb::cases {

// The calls that can fail.
enum class StorageCall {
  kModels,
  kNewModel,
  kCommit,
  kAcknowledge,
  kRead,
  kReplay,
  kErase,
  kMaintain,
  kProbe,
  kUsage,
  kWriteSnapshot,
  kReadSnapshot,
  kRemoveSnapshot,
  kBackUp,
};

// When a failing commit fails. A real disk can fail in both ways, so the caller cannot know whether
// the batch was stored.
enum class CommitFailure { kBeforeStoring, kAfterStoring };

// The contents of a disk, and which of its calls fail. Safe to use from several threads.
class MemoryDisk {
 public:
  // Makes the `number`-th call from now on fail (1: the next), of any kind or of one kind.
  void fail_call(std::size_t number, std::optional<StorageCall> kind = std::nullopt);
  // Makes all calls of one kind fail until `heal`.
  void fail_always(StorageCall kind);
  void set_commit_failure(CommitFailure failure);
  // Makes all calls succeed again.
  void heal();

  // Calls since the disk was made, and how many of them failed.
  std::size_t calls();
  std::size_t failures();

  // Opens the contents stored under a name. Throws Error (kSystem) while they have an owner.
  std::unique_ptr<Storage> open(const std::string& name = "data");
  // Acts as if another owner took the disk: the present owner loses its lease.
  void take_away_lease(const std::string& name = "data");
  // Changes one byte of a snapshot.
  void damage_snapshot(std::uint32_t model, std::uint64_t position,
                       const std::string& name = "data");

 private:
  friend class MemoryLog;
  friend class MemorySnapshots;
  friend class MemoryLease;
  friend class MemoryStorage;

  struct Snapshot {
    std::string bytes;
    bool aside = false;
    std::shared_ptr<const KnownPieces> pieces;  // of one that came in pieces
  };
  struct Contents {
    std::uint64_t id = 0;
    std::uint32_t highest_model_id = 0;
    std::map<std::uint32_t, StoredModel> models;
    std::map<std::uint32_t, std::map<std::uint64_t, LogRow>> rows;
    std::vector<Erasure> erasures;
    std::map<std::pair<std::uint32_t, std::uint64_t>, EventId> ids;  // by model and key
    std::map<std::uint32_t, std::map<std::uint64_t, Snapshot>> snapshots;
    std::uint64_t owner = 0;  // 0: nobody
  };

  // Counts a call, and throws Error (kSystem) if it is to fail. Requires the mutex.
  void enter(StorageCall kind);
  bool fails(StorageCall kind);

  std::mutex mutex_;
  std::map<std::string, Contents> contents_;
  std::uint64_t last_owner_ = 0;
  std::size_t calls_ = 0;
  std::size_t failures_ = 0;
  std::size_t calls_to_failure_ = 0;  // 0: none is planned
  std::optional<StorageCall> kind_to_fail_;
  std::vector<StorageCall> failing_kinds_;
  CommitFailure commit_failure_ = CommitFailure::kBeforeStoring;
};

}  // namespace mcnb::cases
