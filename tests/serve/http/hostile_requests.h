#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// A request of which two programs could see different ends, hosts or paths.
struct HostileRequest {
  const char* name;
  std::string bytes;
  int status = 400;  // of the answer
};

namespace hostile {

inline const std::string kGet = "GET /livez HTTP/1.1\r\n";
inline const std::string kHost = "Host: localhost\r\n";
inline const std::string kPost =
    "POST /v1/models/default/rank HTTP/1.1\r\nContent-Type: application/json\r\n" + kHost;
inline const std::string kJson = R"({"userId":"u","actions":[{"id":"a"}]})";
inline const std::string kLength = std::to_string(kJson.size());
inline const std::string kChunks = "25\r\n" + kJson + "\r\n0\r\n\r\n";
inline const std::string kChunked = kPost + "Transfer-Encoding: chunked\r\n\r\n";

// A request with one more header.
inline std::string with(const std::string& header) { return kGet + kHost + header + "\r\n\r\n"; }
// A request whose body has the right length, with the header that says so.
inline std::string sized(const std::string& header) { return kPost + header + "\r\n\r\n" + kJson; }
// A request with its body in chunks, with the header that says so.
inline std::string coded(const std::string& header) {
  return kPost + header + "\r\n\r\n" + kChunks;
}

inline std::vector<HostileRequest> hostile_lengths() {
  return {
      {"two Content-Lengths", sized("Content-Length: " + kLength + "\r\nContent-Length: 3")},
      {"two equal ones", sized("Content-Length: " + kLength + "\r\nContent-Length: " + kLength)},
      {"a list of lengths", sized("Content-Length: " + kLength + ", " + kLength)},
      {"a length with a plus", sized("Content-Length: +" + kLength)},
      {"a length with a minus", sized("Content-Length: -1")},
      {"a hexadecimal length", sized("Content-Length: 0x25")},
      {"a length with a blank", sized("Content-Length: 3 7")},
      {"a length with a point", sized("Content-Length: 37.0")},
      {"an empty length", sized("Content-Length:")},
      {"a length in quotes", sized("Content-Length: \"37\"")},
      {"a length beyond 64 bits", sized("Content-Length: 18446744073709551653"), 413},
  };
}

inline std::vector<HostileRequest> hostile_codings() {
  return {
      {"length, then coding", coded("Content-Length: 3\r\nTransfer-Encoding: chunked")},
      {"coding, then length", coded("Transfer-Encoding: chunked\r\nContent-Length: 3")},
      {"two codings", coded("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")},
      {"chunked twice", coded("Transfer-Encoding: chunked, chunked")},
      {"coding identity", coded("Transfer-Encoding: identity")},
      {"chunked, then identity", coded("Transfer-Encoding: chunked, identity")},
      {"coding gzip, chunked", coded("Transfer-Encoding: gzip, chunked")},
      {"an unknown coding", coded("Transfer-Encoding: xchunked")},
      {"a coding with a parameter", coded("Transfer-Encoding: chunked;q=1")},
      {"a coding in quotes", coded("Transfer-Encoding: \"chunked\"")},
      {"a coding after a vertical tab", coded("Transfer-Encoding: \x0b"
                                              "chunked")},
      {"an empty coding", coded("Transfer-Encoding:")},
      {"a coding in HTTP/1.0",
       "POST /livez HTTP/1.0\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n" + kChunks},
  };
}

inline std::vector<HostileRequest> hostile_names() {
  return {
      {"a blank before the colon", sized("Content-Length : " + kLength)},
      {"a blank before the colon of a coding", coded("Transfer-Encoding : chunked")},
      {"a tab before the colon", with("X\t: y")},
      {"a blank inside a name", with("X Y: z")},
      {"an empty name", with(": y")},
      {"a header without a colon", with("X")},
      {"a name with a bracket", with("X(: y")},
      {"a name that is not ASCII", with("X\xc3\xa4: y")},
  };
}

// Headers that decide who calls and what the body is.
inline std::vector<HostileRequest> hostile_pairs() {
  return {
      {"two keys", with("X-API-Key: a\r\nX-API-Key: b")},
      {"two equal keys", with("X-API-Key: a\r\nx-api-key: a")},
      {"two keys of the retired service",
       with("Ocp-Apim-Subscription-Key: a\r\nOcp-Apim-Subscription-Key: b")},
      {"two authorizations", with("Authorization: Bearer a\r\nAuthorization: Bearer b")},
      {"two origins", with("Origin: http://localhost\r\nOrigin: http://other.example")},
      {"two types of the body", sized("Content-Type: text/plain\r\nContent-Length: " + kLength)},
  };
}

inline std::vector<HostileRequest> hostile_folds() {
  return {
      {"a folded header", with("X: a\r\n b")},
      {"a header folded by a tab", with("X: a\r\n\tb")},
      {"a folded coding", coded("Transfer-Encoding:\r\n chunked")},
      {"a blank before the first header", kGet + " X: y\r\n" + kHost + "\r\n"},
  };
}

inline std::vector<HostileRequest> hostile_characters() {
  using namespace std::string_literals;
  return {
      {"only line feeds", "GET /livez HTTP/1.1\nHost: localhost\n\n"},
      {"a line feed after the first line", "GET /livez HTTP/1.1\n" + kHost + "\r\n"},
      {"a line feed after a header", with("X: a\nY: b")},
      {"a line feed at the end", kGet + kHost + "\n"},
      {"a carriage return inside a header", with("X: a\rY: b")},
      {"a carriage return inside the first line", "GET /livez HTTP/1.1\rX: y\r\n" + kHost + "\r\n"},
      {"two carriage returns", kGet + kHost + "X: y\r\r\n\r\n"},
      {"NUL in a value", with("X: a\0b"s)},
      {"NUL in a name", with("X\0Y: b"s)},
      {"NUL in the path", "GET /livez\0 HTTP/1.1\r\n"s + kHost + "\r\n"},
      {"NUL in the method", "GE\0T /livez HTTP/1.1\r\n"s + kHost + "\r\n"},
      {"NUL at the beginning", "\0"s + kGet + kHost + "\r\n"},
      {"a control character in a value", with("X: a\x01"
                                              "b")},
      {"DEL in a value", with("X: a\x7f"
                              "b")},
      {"two empty lines at the beginning", "\r\n\r\n" + kGet + kHost + "\r\n"},
  };
}

inline std::vector<HostileRequest> hostile_first_lines() {
  return {
      {"a method that is no token", "G(T /livez HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a method in quotes", "\"GET\" /livez HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a blank before the method", " GET /livez HTTP/1.1\r\n" + kHost + "\r\n"},
      {"two blanks", "GET  /livez HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a blank inside the path", "GET /livez x HTTP/1.1\r\n" + kHost + "\r\n"},
      {"tabs as blanks", "GET\t/livez\tHTTP/1.1\r\n" + kHost + "\r\n"},
      {"a blank at the end", "GET /livez HTTP/1.1 \r\n" + kHost + "\r\n"},
      {"HTTP/0.9", "GET /livez\r\n\r\n"},
      {"a version in small letters", "GET /livez http/1.1\r\n" + kHost + "\r\n"},
      {"a version of two digits", "GET /livez HTTP/1.10\r\n" + kHost + "\r\n"},
      {"HTTP/2.0", "GET /livez HTTP/2.0\r\n" + kHost + "\r\n", 505},
      {"HTTP/1.2", "GET /livez HTTP/1.2\r\n" + kHost + "\r\n", 505},
      {"another protocol", "GET /livez RTSP/1.1\r\n" + kHost + "\r\n"},
      {"an absolute URL", "GET http://other/livez HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a path without a slash", "GET livez HTTP/1.1\r\n" + kHost + "\r\n"},
      {"an asterisk", "OPTIONS * HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a tunnel", "CONNECT localhost:443 HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a fragment", "GET /livez#x HTTP/1.1\r\n" + kHost + "\r\n"},
  };
}

inline std::vector<HostileRequest> hostile_hosts() {
  return {
      {"no Host", kGet + "\r\n"},
      {"two Hosts", with("Host: other")},
      {"two equal Hosts", with("Host: localhost")},
      {"an empty Host", kGet + "Host:\r\n\r\n"},
      {"a Host with a path", kGet + "Host: localhost/x\r\n\r\n"},
      {"a Host with a user", kGet + "Host: user@localhost\r\n\r\n"},
      {"a list of Hosts", kGet + "Host: localhost other\r\n\r\n"},
      {"a Host with a bad port", kGet + "Host: localhost:80x\r\n\r\n"},
  };
}

inline std::vector<HostileRequest> hostile_chunks() {
  return {
      {"a size that is no number", kChunked + "g\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"an empty size", kChunked + "\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a size with 0x", kChunked + "0x25\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a size with a plus", kChunked + "+25\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a size with a minus", kChunked + "-25\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a blank before a size", kChunked + " 25\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a blank after a size", kChunked + "25 \r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a size beyond 64 bits", kChunked + "10000000000000025\r\n" + kJson + "\r\n0\r\n\r\n", 413},
      {"a line feed after a size", kChunked + "25\n" + kJson + "\r\n0\r\n\r\n"},
      {"a line feed after an extension", kChunked + "25;a\n" + kJson + "\r\n0\r\n\r\n"},
      {"a carriage return in an extension", kChunked + "25;a\rb\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a long extension", kChunked + "25;" + std::string(300, 'a') + "\r\n" + kJson + "\r\n"},
      {"a chunk that is too long", kChunked + "24\r\n" + kJson + "\r\n0\r\n\r\n"},
      {"a line feed after a chunk", kChunked + "25\r\n" + kJson + "\n0\r\n\r\n"},
      {"a line feed after the last chunk", kChunked + "25\r\n" + kJson + "\r\n0\r\n\n"},
      {"a line feed after a trailer", kChunked + "25\r\n" + kJson + "\r\n0\r\nX: y\n\r\n"},
      {"a length as a trailer", kChunked + "25\r\n" + kJson + "\r\n0\r\nContent-Length: 3\r\n\r\n"},
      {"a folded trailer", kChunked + "25\r\n" + kJson + "\r\n0\r\nX: y\r\n z\r\n\r\n"},
      {"a long trailer",
       kChunked + "25\r\n" + kJson + "\r\n0\r\nX: " + std::string(10'000, 'a') + "\r\n\r\n"},
  };
}

inline std::vector<HostileRequest> other_hostile_requests() {
  return {
      {"an unknown expectation", kPost + "Expect: 200-ok\r\nContent-Length: 0\r\n\r\n"},
      {"long headers", with("X: " + std::string(40'000, 'a')), 431},
      {"many headers", with([] {
         std::string many = "A: b";
         for (int i = 0; i < 120; ++i) {
           many += "\r\nA: b";
         }
         return many;
       }()),
       431},
  };
}

}  // namespace hostile

// Every one must be refused, and its connection closed. The bodies are well-formed rank requests,
// so that none is refused for its content.
inline std::vector<HostileRequest> hostile_requests() {
  std::vector<HostileRequest> all;
  for (const auto& some :
       {hostile::hostile_lengths(), hostile::hostile_codings(), hostile::hostile_names(),
        hostile::hostile_pairs(), hostile::hostile_folds(), hostile::hostile_characters(),
        hostile::hostile_first_lines(), hostile::hostile_hosts(), hostile::hostile_chunks(),
        hostile::other_hostile_requests()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Requests that look odd, but can be read in one way only. Every one is served.
inline std::vector<HostileRequest> sound_requests() {
  const std::string& get = hostile::kGet;
  const std::string& host = hostile::kHost;
  const std::string& post = hostile::kPost;
  const std::string& json = hostile::kJson;
  return {
      {"a plain request", get + host + "\r\n", 200},
      {"an empty line before it", "\r\n" + get + host + "\r\n", 200},
      {"names in any case", get + "hOsT: localhost\r\n\r\n", 200},
      {"no blank after the colon", get + "Host:localhost\r\n\r\n", 200},
      {"blanks and tabs around a value", get + "Host: \t localhost \t\r\n\r\n", 200},
      {"an empty value", get + host + "X:\r\n\r\n", 200},
      {"a value that is not ASCII", get + host + "X: \xc3\xa4\r\n\r\n", 200},
      {"a port in Host", get + "Host: 127.0.0.1:8080\r\n\r\n", 200},
      {"IPv6 in Host", get + "Host: [::1]:8080\r\n\r\n", 200},
      {"a query", "GET /livez?a=b&c HTTP/1.1\r\n" + host + "\r\n", 200},
      {"HTTP/1.0 without Host", "GET /livez HTTP/1.0\r\n\r\n", 200},
      {"a length of nothing", get + host + "Content-Length: 0\r\n\r\n", 200},
      {"a length with zeros", post + "Content-Length: 0000037\r\n\r\n" + json, 200},
      {"chunks",
       post + "Transfer-Encoding: chunked\r\n\r\n5\r\n" + json.substr(0, 5) + "\r\n20\r\n" +
           json.substr(5) + "\r\n0\r\n\r\n",
       200},
      {"Chunked in any case, sizes with zeros",
       post + "transfer-encoding: CHUNKED\r\n\r\n0025\r\n" + json + "\r\n000\r\n\r\n", 200},
      {"an extension and a trailer",
       post + "Transfer-Encoding: chunked\r\n\r\n25;a=\"b c\"\r\n" + json + "\r\n0\r\nX: y\r\n\r\n",
       200},
      {"an expectation", post + "Expect: 100-continue\r\nContent-Length: 37\r\n\r\n" + json, 200},
      {"an unknown method", "BREW /livez HTTP/1.1\r\n" + host + "\r\n", 405},
  };
}

}  // namespace mcnb
