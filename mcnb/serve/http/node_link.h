#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/response_parser.h"
#include "mcnb/serve/nodes.h"

namespace mcnb {

// A connection to another node, which carries one request after the other. Never waits: call
// `proceed` when the socket is ready. For one thread.
class NodeLink {
 public:
  // Begins to connect. Throws Error (kSystem) if the address cannot be resolved.
  explicit NodeLink(std::shared_ptr<const Node> node);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  int file() const { return socket_; }
  const Node& node() const { return *node_; }

  // Sends a request. Requires that no response is awaited.
  void send(std::string bytes);

  enum class State : std::uint8_t {
    kWaiting,   // for the socket, or for nothing
    kAnswered,  // `take_response` has the response
    kLost,      // the connection is of no more use
  };
  State proceed();
  HttpResponse take_response();
  // Whether a part of the last request may have reached the node.
  bool has_sent() const { return sent_ > 0; }
  // Whether the connection can carry another request.
  bool reusable() const { return reusable_; }

 private:
  bool write_some();
  State read_some();

  std::shared_ptr<const Node> node_;
  int socket_ = -1;
  std::string out_;
  std::size_t sent_ = 0;  // of `out_`
  ResponseParser parser_;
  bool awaited_ = false;
  bool reusable_ = true;
  HttpResponse response_;
};

// A request as another node is to get it. `id`: for an event or a reward that has none.
std::string forwarded_bytes(const HttpRequest& request, const std::string& id,
                            const std::string& from, const Node& to);

}  // namespace mcnb
