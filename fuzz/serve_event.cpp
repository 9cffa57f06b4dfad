// Rows of the log. A row that can be decoded gives the same bytes when encoded again, and a model
// applies or refuses it. All other rows are refused as damaged.

#include <cstdint>
#include <string_view>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/model/model.h"

// The first byte is the kind of the event.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  if (size == 0) {
    return 0;
  }
  static ThreadPool threads(1);
  ModelOptions options;
  options.dimension = 2;
  options.policy = parse_policy("linucb:users=each");
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const Event event = decode_event(static_cast<EventKind>(data[0]), bytes, 2, "fuzz");
    check(kind_of(event) == static_cast<EventKind>(data[0]), "the kind stays");
    check(encode_event(event) == bytes, "an event has one encoding");
    Model model(options, threads);
    model.apply(event, 1);
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kCorrupt, "damage is called that");
    check(error.what()[0] != '\0', "a refusal says why");
  }
  return 0;
}
