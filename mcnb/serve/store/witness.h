#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace mcnb {

// What was acknowledged.
struct Acknowledged {
  std::uint64_t folder = 0;  // the number of the database, which its backups share
  std::uint64_t copy = 0;    // the number of this copy of it, which its backups do not share
  std::uint64_t commit = 0;  // batches
  std::map<std::uint32_t, std::uint64_t> positions;  // of the last row of each model, by its id

  bool operator==(const Acknowledged&) const = default;
};

// A file beside the database that says what was acknowledged. SQLite drops everything after the
// first damaged frame of a WAL without a word; the witness tells that something is missing. It has
// two slots, written in turns, each with a checksum: a power loss in the middle of writing one
// leaves the other. For one thread at a time.
class Witness {
 public:
  static constexpr const char* kFileName = "witness";

  // What the witness in a folder says: the later of its sound slots. nullopt if there is no file.
  // Throws Error: kCorrupt if no slot is sound, kSystem.
  static std::optional<Acknowledged> read(const std::filesystem::path& folder);
  // Makes the file, or replaces it, durably. Throws Error (kSystem).
  static void make(const std::filesystem::path& folder, const Acknowledged& state);

  // Opens the file in a folder to write it. Throws Error (kSystem) if there is none.
  explicit Witness(const std::filesystem::path& folder);
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // Durable when it returns. Throws Error (kSystem).
  void write(const Acknowledged& state);

 private:
  std::string name_;
  int file_ = -1;
  int next_slot_ = 0;
};

}  // namespace mcnb
