#include "mcnb/serve/store/witness.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/model/bytes.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kMagic = 0x3174697762636e6d;  // "mcnbwit1"
constexpr std::size_t kSlotBytes = 32 * 1024;
constexpr int kSlots = 2;
constexpr std::size_t kMostPositions = 2000;

std::string encode(const Acknowledged& state) {
  ByteWriter out;
  for (const std::uint64_t number : {kMagic, state.folder, state.copy, state.commit}) {
    out.put(number);
  }
  out.write_count(state.positions.size());
  for (const auto& [model, position] : state.positions) {
    out.put(model);
    out.put(position);
  }
  out.put(hash_bytes(out.bytes()));
  check(out.bytes().size() <= kSlotBytes, "the positions of all models fit into a slot");
  return out.take();
}

// nullopt for a slot that is empty or damaged.
std::optional<Acknowledged> decode(std::string_view slot) {
  try {
    ByteReader in(slot, "witness");
    if (in.get<std::uint64_t>() != kMagic) {
      return std::nullopt;
    }
    Acknowledged state;
    state.folder = in.get<std::uint64_t>();
    state.copy = in.get<std::uint64_t>();
    state.commit = in.get<std::uint64_t>();
    const std::size_t count = in.read_count(kMostPositions);
    for (std::size_t i = 0; i < count; ++i) {
      const auto model = in.get<std::uint32_t>();
      state.positions[model] = in.get<std::uint64_t>();
    }
    const auto checksum = in.get<std::uint64_t>();
    const std::size_t size = 4 * 8 + 4 + count * 12;
    return checksum == hash_bytes(slot.substr(0, size)) ? std::optional(state) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

[[noreturn]] void fail(const std::string& name, const char* what) {
  throw Error(ErrorKind::kSystem, fmt::format("{}: {}: {}", name, what, std::strerror(errno)));
}

// The sound slots of a file, by their number.
std::array<std::optional<Acknowledged>, kSlots> slots_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (!file) {
    fail(path.string(), "cannot read");
  }
  const std::string_view bytes = contents.view();
  std::array<std::optional<Acknowledged>, kSlots> slots;
  for (std::size_t i = 0; i < kSlots && i * kSlotBytes < bytes.size(); ++i) {
    slots[i] = decode(bytes.substr(i * kSlotBytes, kSlotBytes));
  }
  return slots;
}

int later_slot(const std::array<std::optional<Acknowledged>, kSlots>& slots) {
  if (slots[0] && slots[1]) {
    return slots[1]->commit > slots[0]->commit ? 1 : 0;
  }
  return slots[1] ? 1 : 0;
}

}  // namespace

std::optional<Acknowledged> Witness::read(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFileName;
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  const auto slots = slots_in(path);
  const std::optional<Acknowledged>& state = slots[static_cast<std::size_t>(later_slot(slots))];
  if (!state) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: it is damaged", path.string()));
  }
  return state;
}

void Witness::make(const std::filesystem::path& folder, const Acknowledged& state) {
  std::string bytes = encode(state);
  bytes.resize(kSlots * kSlotBytes);  // so that no later write changes the file's size
  write_file(folder / kFileName, bytes, FileAccess::kOwner);
}

Witness::Witness(const std::filesystem::path& folder) : name_((folder / kFileName).string()) {
  next_slot_ = 1 - later_slot(slots_in(name_));
  file_ = ::open(name_.c_str(), O_WRONLY | O_CLOEXEC);
  if (file_ < 0) {
    fail(name_, "cannot open");
  }
}

Witness::~Witness() { ::close(file_); }

void Witness::write(const Acknowledged& state) {
  const std::string bytes = encode(state);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto at = static_cast<off_t>(static_cast<std::size_t>(next_slot_) * kSlotBytes + done);
    const ssize_t written = ::pwrite(file_, bytes.data() + done, bytes.size() - done, at);
    if (written < 0 && errno != EINTR) {
      fail(name_, "cannot write");
    }
    done += written > 0 ? static_cast<std::size_t>(written) : 0;
  }
  if (::fdatasync(file_) != 0) {
    fail(name_, "cannot sync");
  }
  next_slot_ = 1 - next_slot_;
}

}  // namespace mcnb
