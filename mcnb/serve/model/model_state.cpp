#include "mcnb/serve/model/model_state.h"

#include <sstream>

namespace mcnb {

std::string state_bytes(Model& model) {
  std::ostringstream out;
  StateWriter writer(out, "the state of a model", kModelState);
  model.save(writer);
  writer.finish();
  return std::move(out).str();
}

std::string snapshot_bytes(Model& model, std::uint64_t store_id) {
  std::ostringstream out;
  StateWriter writer(out, "the snapshot of a model", kModelState);
  writer.write(store_id);
  model.save(writer);
  writer.finish();
  return std::move(out).str();
}

void load_snapshot(std::istream& in, const std::string& name, std::uint64_t store_id,
                   Model& model) {
  StateReader reader(in, name, kModelState);
  if (reader.read<std::uint64_t>() != store_id) {
    reader.fail("it belongs to another database");
  }
  model.load(reader);
  reader.finish();
}

}  // namespace mcnb
