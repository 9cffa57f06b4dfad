// Snapshots, behind their checksums: whatever the bytes of a state say, it is loaded whole or
// refused, and a loaded one can be saved again.

#include <cstdint>
#include <sstream>
#include <string>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/store/snapshot_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  static ThreadPool threads(1);
  ModelOptions options;
  options.dimension = 2;
  options.policy = parse_policy("linucb:users=each");
  // Framed here: checksums would keep every changed byte out.
  std::ostringstream framed;
  StateWriter writer(framed, "fuzz", kModelState);
  writer.write_bytes(data, size);
  writer.finish();
  try {
    Model model(options, threads);
    std::istringstream in(framed.str());
    StateReader reader(in, "fuzz", kModelState);
    model.load(reader);
    reader.finish();
    check(!Snapshots::bytes_of(model, "fuzz").empty(), "a loaded state can be saved");
    // And it serves: nothing in it can break what comes later.
    RankRequest request;
    request.event_id = "next";
    request.user_id = "ann";
    request.actions = {"a", "b"};
    request.features = {1.0F, 0.0F, 0.6F, 0.8F};
    request.eligible = {true, true};
    std::uint64_t place = model.last_place();
    if (model.needs_arrival(request.user_id)) {
      model.apply(Arrival{model.user_key(request.user_id)}, ++place);
    }
    const RankRequest* one = &request;
    model.apply(model.decide({&one, 1}, 1).front(), ++place);
    model.apply(Reward{"next", "", 2, 1.0F}, ++place);
    model.apply(Expiry{3, 1000}, ++place);
    model.apply(Forgetting{model.user_key(request.user_id), 4}, ++place);
    check(!Snapshots::bytes_of(model, "fuzz").empty(), "it can be saved after that");
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kUsage ||
              error.kind() == ErrorKind::kLimit,
          "damage is called that");
  }
  return 0;
}
