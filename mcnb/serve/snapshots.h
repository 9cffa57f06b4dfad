#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/serve/model.h"

namespace mcnb {

// The saved states of models: files FOLDER/snapshots/MODEL-PLACE.snapshot. A snapshot holds the
// effect of all events of its model up to its place. The two latest of each model are kept.
class Snapshots {
 public:
  explicit Snapshots(const std::filesystem::path& data_folder);

  // The whole file, to be written later.
  static std::string bytes_of(Model& model, const std::string& name);

  // Places of a model's snapshots, the latest first.
  std::vector<std::uint64_t> places(std::uint32_t model) const;

  // On disk when it returns, whole or not at all; older ones than the one before it are removed.
  // Throws Error (kSystem).
  void write(std::uint32_t model, std::uint64_t place, const std::string& bytes);

  // Throws Error: kCorrupt, kSystem. The model is undefined after that.
  void load(std::uint32_t model, std::uint64_t place, Model& into) const;

  // Removes those below a place; all of them: the highest place there is.
  void remove_below(std::uint32_t model, std::uint64_t place);

  std::filesystem::path path(std::uint32_t model, std::uint64_t place) const;

 private:
  std::filesystem::path folder_;
};

// Writes a whole file, synced, or leaves the old one. Throws Error (kSystem).
void write_durably(const std::filesystem::path& path, std::string_view bytes);

}  // namespace mcnb
