#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/serve/model/model.h"

namespace mcnb {

// The saved states of models: files FOLDER/snapshots/MODEL-PLACE.snapshot. A snapshot holds the
// effect of all events of its model up to its place, and the number of the database that has them.
// The two latest of each model are kept. Damaged ones are evidence: they get another ending.
class Snapshots {
 public:
  explicit Snapshots(const std::filesystem::path& data_folder);

  // The state of a model.
  static std::string bytes_of(Model& model, const std::string& name);
  // The whole file, to be written later.
  static std::string file_of(Model& model, const std::string& name, std::uint64_t folder_id);

  // Whether there are snapshots of any model.
  bool any() const { return !models().empty(); }
  // Every model that has files here, of whatever ending.
  std::vector<std::uint32_t> models() const;

  // Places of a model's snapshots, the latest first.
  std::vector<std::uint64_t> places(std::uint32_t model) const;

  // On disk when it returns, whole or not at all; older ones than the one before it are removed.
  // Throws Error (kSystem).
  void write(std::uint32_t model, std::uint64_t place, const std::string& bytes);

  // Throws Error: kCorrupt, kSystem. The model is undefined after that.
  void load(std::uint32_t model, std::uint64_t place, std::uint64_t folder_id, Model& into) const;

  // Moves a snapshot that cannot be read out of the way.
  void set_aside(std::uint32_t model, std::uint64_t place);
  // Removes all files of a model but snapshots from `place` on: they know what is to be forgotten.
  void remove_before(std::uint32_t model, std::uint64_t place);
  void remove_all(std::uint32_t model);
  // Removes files that somebody was writing when the process ended.
  void remove_unfinished();

  std::filesystem::path path(std::uint32_t model, std::uint64_t place) const;

 private:
  struct Found {
    std::uint32_t model = 0;
    std::uint64_t place = 0;
    std::string ending;  // ".snapshot", or with more after it
    std::filesystem::path path;
  };
  std::vector<Found> files() const;

  std::filesystem::path folder_;
};

// Writes a whole file, synced, or leaves the old one. Throws Error (kSystem).
void write_durably(const std::filesystem::path& path, std::string_view bytes);

}  // namespace mcnb
