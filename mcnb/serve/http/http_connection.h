#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mcnb/serve/http/connection_limits.h"
#include "mcnb/serve/http/http_server.h"
#include "mcnb/serve/http/request_parser.h"
#include "mcnb/serve/http/transport.h"

namespace mcnb {

// What all connections of a server share.
struct ConnectionContext {
  const HttpOptions& options;
  const HttpServer::Handler& handler;
  RequestMetrics& metrics;
  const std::atomic<bool>& closing;  // connections end with their next response
};

// One connection: reads a request, sends its response, and begins anew. For the server's thread.
class HttpConnection {
 public:
  using Time = ConnectionLimits::Time;

  // `resume` is called on any thread once a response can be made that the connection waits for;
  // `finish_work` must then be called. Borrows the context and the guest.
  HttpConnection(std::unique_ptr<Transport> transport, const ClientAddress& peer,
                 ConnectionLimits::Guest& guest, const ConnectionContext& context,
                 std::function<void()> resume, Time now);

  // Does what can be done without waiting. Returns true if there is more to do at once, after the
  // other connections had their turn.
  bool proceed(Time now);
  // The response that the connection waits for can be made.
  bool finish_work(Time now);
  // Ends the connection if its client has been too slow, and goes on with a body that is still
  // coming into being. Call it several times a second. Returns what `proceed` returns.
  bool tick(Time now);
  // Ends the connection unless the client waits for a response.
  void end_if_unused();
  bool ended() const { return stage_ == Stage::kEnded; }
  // Its address, or the network that counts as one.
  const ClientAddress& client() const { return guest_.group; }

 private:
  enum class Stage : std::uint8_t {
    kHandshake,
    kIdle,      // no byte of the next request has come
    kHead,      // reads the request line and the headers
    kBody,      // reads the body
    kWork,      // waits for the engine
    kResponse,  // sends the response
    kStream,    // sends a body that is still coming into being
    kGoodbye,   // the last response was sent; reads what the client still sends, so that the
                // response is not lost
    kEnded,
  };
  // One request, from its first byte to the end of its response.
  struct Exchange {
    Exchange(std::size_t largest_body, std::size_t largest_upload)
        : parser(largest_body, largest_upload) {}
    RequestParser parser;
    HttpRequest request;
    HttpPlan plan;
    bool admitted = false;
    Time begin;
  };

  void enter(Stage stage, Time now);
  double seconds_allowed() const;
  double upload_seconds() const;
  bool step(Time now);
  bool step_handshake(Time now);
  bool step_reading(Time now);
  bool step_response(Time now);
  bool step_stream(Time now);
  bool write_some();
  bool step_goodbye();
  bool parse(Time now);
  void on_head(Time now);
  void on_request(Time now);
  void on_malformed(Time now);
  void respond(HttpResponse response, Time now);
  void ask_for_body();
  HttpRequest request_of(const RequestHead& head) const;

  std::unique_ptr<Transport> transport_;
  ClientAddress peer_;
  ConnectionLimits::Guest& guest_;
  const ConnectionContext& context_;
  std::function<void()> resume_;
  Stage stage_ = Stage::kHandshake;
  Time since_;          // the stage began
  bool first_ = true;   // no request has been served yet
  bool close_ = false;  // after the response
  std::unique_ptr<Exchange> exchange_;
  std::string received_;  // bytes that were not parsed yet
  std::string response_;  // bytes that were not sent yet
  std::size_t sent_ = 0;  // of `response_`
  BodyStream stream_;     // of the present response; unset if its body is complete
  bool chunked_ = false;  // how the pieces of the stream are sent
};

}  // namespace mcnb
