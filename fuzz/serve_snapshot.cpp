// The contents of snapshots. Whatever the bytes of a state are, the state is either loaded
// completely or refused, and a loaded state can be saved again.

#include <cstdint>
#include <sstream>
#include <string>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/model/model_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  static ThreadPool threads(1);
  ModelOptions options;
  options.dimension = 2;
  options.policy = parse_policy("linucb:users=each");
  // The frames are made here, because otherwise the checksums would reject every changed byte.
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
    check(!state_bytes(model).empty(), "a loaded state can be saved");
    // The loaded model can serve requests: nothing in its state breaks later calls.
    RankRequest request;
    request.event_id = "next";
    request.user_id = "ann";
    request.actions = {"a", "b"};
    request.features = {1.0F, 0.0F, 0.6F, 0.8F};
    request.eligible = {true, true};
    std::uint64_t position = model.last_position();
    if (model.needs_arrival(request.user_id)) {
      model.apply(Arrival{model.user_key(request.user_id)}, ++position);
    }
    const RankRequest* one = &request;
    model.apply(model.decide({&one, 1}, 1).front(), ++position);
    model.apply(Reward{"next", "", 2, 1.0F}, ++position);
    model.apply(Expiry{3, 1000}, ++position);
    model.apply(Forgetting{model.user_key(request.user_id), 4}, ++position);
    check(!state_bytes(model).empty(), "it can be saved after that");
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kUsage ||
              error.kind() == ErrorKind::kLimit,
          "damage is called that");
  }
  return 0;
}
