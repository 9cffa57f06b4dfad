#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mcnb {

// The body of a response that is made while it is sent, piece by piece. For the server's thread,
// which may destroy it before the end.
class BodyStream {
 public:
  virtual ~BodyStream() = default;

  // Returns the next bytes, or an empty text at the end. Returns nullopt if there are none yet;
  // `more` is then called once, on any thread, when `next` should be called again. Throws Error if
  // the body cannot be completed.
  virtual std::optional<std::string> next(std::function<void()> more) = 0;
};

}  // namespace mcnb
