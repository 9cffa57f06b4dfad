#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/serve/store/storage.h"

namespace mcnb {

// Snapshots as files FOLDER/snapshots/MODEL-POSITION.snapshot. A damaged one gets another ending.
// What is written, renamed or removed is on the disk when the function returns.
class SnapshotFiles : public SnapshotStore {
 public:
  // Borrows the lease: nothing is written without it.
  SnapshotFiles(const std::filesystem::path& data_folder, const Lease& lease);

  std::vector<std::uint32_t> models() override;
  std::vector<std::uint64_t> positions(std::uint32_t model) override;
  void write(std::uint32_t model, std::uint64_t position, const NextBytes& next) override;
  SnapshotSource open(std::uint32_t model, std::uint64_t position) override;
  void set_aside(std::uint32_t model, std::uint64_t position) override;
  void remove_before(std::uint32_t model, std::uint64_t position) override;
  void remove_unfinished() override;
  // Writes a copy of all snapshots into a folder.
  void copy_to(const std::filesystem::path& folder);

 private:
  struct Found {
    std::uint32_t model = 0;
    std::uint64_t position = 0;
    std::string ending;  // ".snapshot", possibly followed by ".part" or ".damaged"
    std::filesystem::path path;
  };
  std::vector<Found> files() const;
  std::filesystem::path path(std::uint32_t model, std::uint64_t position) const;
  void make_own_folder() const;
  void remove(const std::vector<Found>& files) const;

  std::filesystem::path folder_;
  const Lease& lease_;
};

}  // namespace mcnb
