#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "mcnb/base/error.h"
#include "mcnb/serve/server.h"

// Only this file knows of TOML: its header takes long to compile.
#include <toml++/toml.h>

namespace mcnb {
namespace {

const OptionTable<ServerOptions>& table() {
  static const OptionTable<ServerOptions> kTable = [] {
    using O = ServerOptions;
    OptionTable<O> t;
    t.text("data", &O::data, "a path", "folder of the database and the snapshots");
    t.text("host", &O::host, "a name or an address",
           "address to listen on; others than loopback need keys");
    t.count("port", &O::port, {0, 65535}, "port to listen on; 0: any that is free");
    t.text("certificate", &O::certificate, "a path", "PEM file of the certificate chain, for TLS");
    t.text("private_key", &O::private_key, "a path", "PEM file of its private key");
    t.count("threads", &O::threads, {0, 1024}, "threads that compute; 0: one per processor");
    t.count("connections", &O::connections, {1, 1e5}, "connections at once");
    t.count("queue", &O::queue, {1, 1e5},
            "requests that may wait; beyond it the answer is 503 with Retry-After");
    t.number("idle_seconds", &O::idle_seconds, {0.1, 3600}, "that a connection may be silent");
    t.number("header_seconds", &O::header_seconds, {0.1, 3600}, "that headers may take");
    t.number("body_seconds", &O::body_seconds, {0.1, 3600}, "that a body may take");
    t.number("restart_seconds", &O::restart_seconds, {0.01, 1e6},
             "that replaying the log at a restart may take; snapshots are made accordingly");
    t.number("log_gigabytes", &O::log_gigabytes, {0.001, 1e6},
             "of log; beyond it the oldest events are erased, after fresh snapshots");
    t.number("log_days", &O::log_days, {0.001, 1e5}, "after which events are erased likewise");
    t.text("personalizer_model", &O::personalizer_model, "a model's name",
           "model behind the paths of the retired service");
    return t;
  }();
  return kTable;
}

std::string toml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + "\"";
}

// A value as option tables read it.
std::string plain_text(const toml::node& node, const std::string& what) {
  if (const auto text = node.value_exact<std::string>()) {
    return *text;
  }
  if (const auto number = node.value_exact<std::int64_t>()) {
    return std::to_string(*number);
  }
  if (const auto number = node.value_exact<double>()) {
    return number_text(*number);
  }
  if (const auto yes = node.value_exact<bool>()) {
    return *yes ? "yes" : "no";
  }
  throw Error(ErrorKind::kUsage, fmt::format("{}: expected a text, a number, true or false", what));
}

ApiKey read_key(const toml::node& node) {
  const toml::table* entry = node.as_table();
  if (entry == nullptr) {
    throw Error(ErrorKind::kUsage, "keys: expected tables [[keys]]");
  }
  ApiKey key;
  for (const auto& [name, value] : *entry) {
    const std::string text = plain_text(value, std::string(name.str()));
    if (name == "name") {
      key.name = text;
    } else if (name == "role") {
      key.role = parse_role(text);
    } else if (name == "sha256") {
      key.sha256 = text;
    } else {
      throw Error(ErrorKind::kUsage,
                  fmt::format("keys: expected name, role, sha256, got \"{}\"", name.str()));
    }
  }
  return key;
}

ModelOptions read_model_table(const std::string& name, const toml::node& node) {
  const toml::table* entry = node.as_table();
  if (entry == nullptr || !is_model_name(name)) {
    throw Error(ErrorKind::kUsage, fmt::format("models.{}: expected a table [models.NAME]", name));
  }
  ModelOptions options;
  for (const auto& [key, value] : *entry) {
    const std::string option(key.str());
    if (const toml::table* policy = value.as_table(); policy != nullptr && option == "options") {
      for (const auto& [inner, given] : *policy) {
        set_option(options, "options." + std::string(inner.str()),
                   plain_text(given, std::string(inner.str())));
      }
    } else {
      set_option(options, option, plain_text(value, option));
    }
  }
  check_model_options(options);
  return options;
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto& own = *reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return ntohl(own.sin_addr.s_addr) >> 24 == 127;
  }
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

// By what the name stands for, not by how it looks. False where it stands for nothing.
bool is_loopback(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return false;
  }
  bool all = true;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    all = all && is_loopback(*one);
  }
  ::freeaddrinfo(found);
  return all;
}

}  // namespace

void set_server_option(ServerOptions& options, const std::string& name, const std::string& text) {
  table().set(options, name, text);
}

std::vector<OptionHelp> server_option_help() { return table().help(); }

void read_config(const std::string& path, ServerOptions& options) {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    const bool missing = error.source().begin.line == 0;
    throw Error(missing ? ErrorKind::kSystem : ErrorKind::kUsage,
                fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
  for (const auto& [key, value] : file) {
    const std::string name(key.str());
    try {
      if (name == "keys" && value.is_array()) {
        for (const toml::node& entry : *value.as_array()) {
          options.keys.push_back(read_key(entry));
        }
      } else if (name == "models" && value.is_table()) {
        for (const auto& [model, node] : *value.as_table()) {
          options.models[std::string(model.str())] =
              read_model_table(std::string(model.str()), node);
        }
      } else {
        set_server_option(options, name, plain_text(value, name));
      }
    } catch (const Error& error) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}:{}: {}", path, value.source().begin.line, error.what()));
    }
  }
}

std::string config_text(const ServerOptions& options) {
  std::string text = "# The service mcnb serve: mcnb serve --config FILE\n";
  const OptionValues values = table().values(options);
  for (const OptionHelp& option : table().help()) {
    const std::string& value = values.at(option.name);
    const bool is_number = option.expected.find("number") != std::string::npos;
    text += fmt::format("\n# {} ({}; default {})\n{} = {}\n", option.help, option.expected,
                        option.standard.empty() ? "none" : option.standard, option.name,
                        is_number ? value : toml_text(value));
  }
  text +=
      "\n# Who may do what; `mcnb serve --new-key ROLE` makes a key. Roles: decide (rank, reward,\n"
      "# activate), read (look at everything), admin (everything). Only the SHA-256 is stored.\n"
      "#[[keys]]\n#name = \"shop\"\n#role = \"decide\"\n#sha256 = \"...\"\n";
  text +=
      "\n# Models that are made at the start where they are missing. Without any, and with an "
      "empty\n"
      "# folder, a model named default is made.\n#[models.default]\n#policy = \"mcnb\"\n";
  const OptionValues standard = option_values({});
  for (const OptionHelp& option : model_option_help()) {
    const bool is_choice = option.expected.find('|') != std::string::npos;
    const std::string& value = standard.at(option.name);
    const std::string shown =
        value == "yes" ? "true"
                       : (value == "no" ? "false" : (is_choice ? toml_text(value) : value));
    text += fmt::format("#{} = {}  # {}\n", option.name, shown, option.help);
  }
  text +=
      "#userPath = \"\"  # where in contextFeatures the user's name stands: user.id\n"
      "#[models.default.options]  # of the policy: mcnb policies mcnb\n#gamma = 0.3\n";
  return text;
}

void check_server_options(const ServerOptions& options) {
  table().validate(options);
  ApiKeys(options.keys);
  if (options.keys.empty() && !is_loopback(options.host)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("host {}: without keys the service listens on loopback only; "
                            "mcnb serve --new-key admin makes a key",
                            options.host));
  }
}

}  // namespace mcnb
