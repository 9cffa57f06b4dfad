#include "mcnb/serve/http/transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace mcnb {
namespace {

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(int socket) : socket_(socket) {}
  ~PlainTransport() override { ::close(socket_); }
  PlainTransport(const PlainTransport&) = delete;
  PlainTransport& operator=(const PlainTransport&) = delete;

  State shake_hands() override { return State::kOpen; }

  Moved read(std::span<char> to) override {
    return moved(::recv(socket_, to.data(), to.size(), 0));
  }

  Moved write(std::string_view bytes) override {
    return moved(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  void end_writing() override { ::shutdown(socket_, SHUT_WR); }

 private:
  static Moved moved(ssize_t bytes) {
    if (bytes > 0) {
      return {State::kOpen, static_cast<std::size_t>(bytes)};
    }
    const bool again = bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return {again ? State::kAgain : State::kEnded, 0};
  }

  int socket_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(int socket) {
  return std::make_unique<PlainTransport>(socket);
}

}  // namespace mcnb
