#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "mcnb/serve/model/model.h"

namespace mcnb {

// The saved state of a model (docs/FORMATS.md): equal bytes mean equal models.
std::string state_bytes(Model& model);

// A snapshot: the id of the store that has the model's events, then its state.
void write_snapshot(std::ostream& out, Model& model, std::uint64_t store_id);
std::string snapshot_bytes(Model& model, std::uint64_t store_id);

// Loads a snapshot. Throws Error naming `name`: kCorrupt if it is damaged, of other options or of
// another store, kSystem if it cannot be read. The model is then undefined.
void load_snapshot(std::istream& in, const std::string& name, std::uint64_t store_id, Model& model);

}  // namespace mcnb
