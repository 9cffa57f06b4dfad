#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace mcnb {

// The bytes of one connection, with or without TLS. Nothing blocks. For one thread.
class Transport {
 public:
  enum class State : std::uint8_t {
    kOpen,   // some bytes were moved
    kAgain,  // nothing can be moved before the socket is ready again
    kEnded,  // the other side has ended the connection, or it failed
  };
  struct Moved {
    State state = State::kAgain;
    std::size_t bytes = 0;
  };

  virtual ~Transport() = default;
  // Must return kOpen before bytes can be moved.
  virtual State shake_hands() = 0;
  virtual Moved read(std::span<char> to) = 0;
  virtual Moved write(std::string_view bytes) = 0;
  // Tells the other side that no more bytes will be sent.
  virtual void end_writing() = 0;
};

// Takes the socket, which must not block, and closes it in the end.
std::unique_ptr<Transport> plain_transport(int socket);

}  // namespace mcnb
