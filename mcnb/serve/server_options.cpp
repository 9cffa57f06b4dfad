#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <sstream>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/caller_policy.h"
#include "mcnb/serve/http/client_address.h"
#include "mcnb/serve/http/request_parser.h"
#include "mcnb/serve/server.h"
#include "mcnb/storage/postgres.h"

// Only this file includes the TOML library, because its header takes long to compile.
#include <toml++/toml.h>

namespace mcnb {
namespace {

using O = ServerOptions;

void add_store(OptionTable<O>& t) {
  t.text("data", &O::data, "a path", "folder of the database and the snapshots");
  t.text("store", &O::store, "a URL",
         "PostgreSQL database instead of the folder, such as postgresql://user@host/database; the "
         "folder then only gets backups");
  t.text("node", &O::node, "a name", "what other nodes of a PostgreSQL store call this one");
  t.text("advertise", &O::advertise, "HOST:PORT",
         "where other nodes reach this one, if not at the host and the port of this file");
  t.number("lease_seconds", &O::lease_seconds, {1, 3600},
           "seconds after which another node may take over from one that is silent");
  t.number(
      "preload_megabytes", &O::preload_megabytes, {0, 1e6},
      "memory of all models in megabytes above which the next node loads them before the owner "
      "goes");
}

void add_listening(OptionTable<O>& t) {
  t.text("host", &O::host, "a name or an address",
         "address to listen on; an address other than loopback requires keys");
  t.count("port", &O::port, {0, 65535}, "port to listen on; 0: any free port");
  t.text("certificate", &O::certificate, "a path", "PEM file of the certificate chain, for TLS");
  t.text("private_key", &O::private_key, "a path", "PEM file of the certificate's private key");
  t.count("threads", &O::threads, {0, 1024},
          "threads that compute decisions; 0: one per processor");
  t.count("connections", &O::connections, {1, 1e5}, "open connections at most");
  t.count("connections_per_address", &O::connections_per_address, {0, 1e5},
          "open connections of one address at most; 0: no limit");
  t.count("reserved_connections", &O::reserved_connections, {0, 1000},
          "further connections that serve only health, metrics and administration");
  t.text("trusted_proxies", &O::trusted_proxies, "addresses or networks, with commas",
         "proxies without a limit per address, whose header X-Forwarded-For names the client");
  t.text("host_names", &O::host_names, "names, with commas",
         "names beside loopback that the header Host may have; without keys all others are "
         "refused");
  t.text("origins", &O::origins, "origins, with commas",
         "web pages that may send requests from a browser and read the answers (CORS); without "
         "keys all others are refused");
  t.text("audit_log", &O::audit_log, "a path",
         "file for the lines about changes and refused keys, which the log has, too");
  t.number("request_lines", &O::request_lines, {0, 1e6},
           "lines in a second at most that the log has about requests; 0: none");
  t.yes_no("request_ids", &O::request_ids,
           "whether these lines have whole paths, with the ids of users and events, and addresses");
}

void add_limits(OptionTable<O>& t) {
  t.count("queue", &O::queue, {1, 1e5},
          "waiting requests at most; further ones get status 503 with Retry-After");
  t.number("wait_seconds", &O::wait_seconds, {0.01, 3600},
           "seconds that a request may wait before work on it begins; later ones get status 503");
  t.number("decision_seconds", &O::decision_seconds, {0.001, 3600},
           "estimated seconds of one decision at most; larger requests get status 413");
  t.number("memory_gigabytes", &O::memory_gigabytes, {0, 1e6},
           "memory of all models, their snapshots and waiting requests; 0: three quarters of what "
           "the machine or the cgroup has");
  t.number("idle_seconds", &O::idle_seconds, {0.1, 3600},
           "seconds that a connection may be silent between two requests");
  t.number("header_seconds", &O::header_seconds, {0.1, 3600},
           "seconds that the headers of a request may take; with the TLS handshake, from the "
           "beginning of a connection to its first request");
  t.number("body_seconds", &O::body_seconds, {0.1, 3600},
           "seconds that the body of a request may take");
}

void add_log(OptionTable<O>& t) {
  t.number("restart_seconds", &O::restart_seconds, {0.01, 1e6},
           "seconds that a restart may replay the log; decides how often snapshots are written");
  t.number("log_gigabytes", &O::log_gigabytes, {0.001, 1e6},
           "size of the log in gigabytes; beyond it the oldest events are erased, after new "
           "snapshots");
  t.number("log_days", &O::log_days, {0.001, 1e5},
           "age in days at which events are erased, after new snapshots");
  t.number("idempotency_hours", &O::idempotency_hours, {0, 8760},
           "hours for which the id of every event is recognised, so that a repeated request is "
           "neither decided nor learned again");
  t.number("verify_megabytes", &O::verify_megabytes, {0, 1e4},
           "megabytes of the log that are verified in a second, in the background; 0: none");
  t.number("check_megabytes", &O::check_megabytes, {0, 1e6},
           "size in megabytes up to which the start verifies the whole log; a larger one is "
           "verified in the background");
  t.count("accept_loss", &O::accept_loss, {0, 9e15},
          "number that a refused start names: goes on without the acknowledged events that are "
          "missing");
  t.yes_no("series", &O::series,
           "whether the figures over time behind the dashboard are kept");
  t.text("personalizer_model", &O::personalizer_model, "a model's name",
         "model behind the paths of the retired Personalizer service");
}

const OptionTable<ServerOptions>& table() {
  static const OptionTable<ServerOptions> kTable = [] {
    OptionTable<O> t;
    add_store(t);
    add_listening(t);
    add_limits(t);
    add_log(t);
    return t;
  }();
  return kTable;
}

std::string toml_text(const std::string& text) {
  std::ostringstream out;
  out << toml::toml_formatter(toml::value<std::string>(text), toml::format_flags::none);
  return out.str();
}

// The value as the text that option tables read.
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
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: expected a string, a number, true or false", what));
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

// The options of a model, or of a challenger, that the table names, as text. `kind`: of tables,
// such as "models".
OptionValues named_in(const std::string& kind, const std::string& name, const toml::node& node) {
  const toml::table* entry = node.as_table();
  if (entry == nullptr || !is_model_name(name)) {
    throw Error(ErrorKind::kUsage, fmt::format("{0}.{1}: expected a table [{0}.NAME]", kind, name));
  }
  OptionValues named;
  for (const auto& [key, value] : *entry) {
    const std::string option(key.str());
    if (option == "challengers" && kind == "models") {
      continue;
    }
    if (const toml::table* policy = value.as_table(); policy != nullptr && option == "options") {
      for (const auto& [inner, given] : *policy) {
        named["options." + std::string(inner.str())] = plain_text(given, std::string(inner.str()));
      }
    } else {
      named[option] = plain_text(value, option);
    }
  }
  return named;
}

ModelOptions model_of(const OptionValues& named) {
  ModelOptions options;
  for (const auto& [name, text] : named) {
    set_option(options, name, text);
  }
  if (!named.contains("policy")) {
    set_default_policy(options);
  }
  check_model_options(options);
  return options;
}

std::map<std::string, ChallengerOptions> challengers_of(const std::string& model,
                                                        const toml::node& node) {
  std::map<std::string, ChallengerOptions> all;
  const toml::node* const found = (*node.as_table()).get("challengers");
  if (found == nullptr) {
    return all;
  }
  const std::string kind = fmt::format("models.{}.challengers", model);
  if (!found->is_table() || found->as_table()->size() > kMostChallengers) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: expected at most {} tables [{}.NAME]", kind,
                                               kMostChallengers, kind));
  }
  for (const auto& [key, value] : *found->as_table()) {
    ChallengerOptions& options = all[std::string(key.str())];
    for (const auto& [option, text] : named_in(kind, std::string(key.str()), value)) {
      set_option(options, option, text);
    }
    check_challenger_options(options);
  }
  return all;
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto& own = *reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return ntohl(own.sin_addr.s_addr) >> 24 == 127;
  }
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

// Judges by the addresses that the name resolves to. False if it resolves to none.
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
          const std::string given(model.str());
          options.named_options[given] = named_in("models", given, node);
          options.models[given] = model_of(options.named_options[given]);
          options.challengers[given] = challengers_of(given, node);
        }
      } else {
        set_server_option(options, name, plain_text(value, name));
      }
    } catch (const Error& error) {
      throw error.within(fmt::format("{}:{}", path, value.source().begin.line));
    }
  }
}

std::string config_text(const ServerOptions& options) {
  std::string text = "# Configuration of mcnb serve: mcnb serve --config FILE\n";
  const OptionValues values = table().values(options);
  for (const OptionHelp& option : table().help()) {
    const std::string& value = values.at(option.name);
    const bool is_number = option.expected.find("number") != std::string::npos;
    text += fmt::format("\n# {} ({}; default {})\n{} = {}\n", option.help, option.expected,
                        option.standard.empty() ? "none" : option.standard, option.name,
                        is_number ? value : toml_text(value));
  }
  text +=
      "\n# API keys; `mcnb serve --new-key ROLE` makes one. Roles: decide (rank, reward, "
      "activate),\n"
      "# read (show everything, change nothing), admin (everything). Only the SHA-256 is stored.\n"
      "#[[keys]]\n#name = \"shop\"\n#role = \"decide\"\n#sha256 = \"...\"\n";
  text +=
      "\n# Models that the service creates at its start unless they exist. If none is listed and "
      "the\n"
      "# data folder is empty, it creates a model named default. Existing models get the settings\n"
      "# that are named here (from `mode` on); the other options are fixed when a model is made.\n"
      "#[models.default]\n#policy = \"hierarchical\"\n";
  const OptionValues standard = option_values(ModelOptions{});
  for (const OptionHelp& option : model_option_help()) {
    const bool is_choice = option.expected.find('|') != std::string::npos;
    const std::string& value = standard.at(option.name);
    const std::string shown =
        value == "yes" ? "true"
                       : (value == "no" ? "false" : (is_choice ? toml_text(value) : value));
    text += fmt::format("#{} = {}  # {}\n", option.name, shown, option.help);
  }
  text +=
      "#userPath = \"\"  # path of the user's name in contextFeatures, such as user.id\n"
      "#[models.default.options]  # options of the policy; `mcnb policies hierarchical` lists "
      "them\n"
      "#alpha = 0.3\n"
      "#[models.default.challengers.linear]  # a policy that learns beside it and never answers\n"
      "#policy = \"linucb\"\n"
      "#weights = \"none\"  # none | clipped: how its lessons are weighed\n"
      "#mostWeight = 10  # the most that a lesson weighs, with clipped\n";
  return text;
}

void check_server_options(const ServerOptions& options) {
  table().validate(options);
  ApiKeys(options.keys);
  AddressList(options.trusted_proxies, "trusted_proxies");
  CallerPolicy(options.host_names, options.origins);
  if (!options.store.empty() && !is_postgres_url(options.store)) {
    throw Error(ErrorKind::kUsage, fmt::format("option store: expected a URL such as "
                                               "postgresql://user@host/database, found \"{}\"; a "
                                               "folder is named by the option data",
                                               options.store));
  }
  if (!is_http_token(options.node)) {
    throw Error(ErrorKind::kUsage, fmt::format("option node: expected letters, digits, '.', '_' or "
                                               "'-', found \"{}\"",
                                               options.node));
  }
  if (!options.advertise.empty() && options.advertise.rfind(':') == std::string::npos) {
    throw Error(ErrorKind::kUsage, fmt::format("option advertise: expected HOST:PORT, found \"{}\"",
                                               options.advertise));
  }
  if (options.certificate.empty() != options.private_key.empty()) {
    throw Error(ErrorKind::kUsage, "TLS needs both a certificate and a private key");
  }
  if (options.keys.empty() && !is_loopback(options.host)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("host {}: without keys the service listens on loopback only; "
                            "mcnb serve --new-key admin makes a key",
                            options.host));
  }
}

std::vector<std::string> changed_options(const ServerOptions& before, const ServerOptions& after) {
  std::vector<std::string> changed;
  const OptionValues old = table().values(before);
  for (const auto& [name, text] : table().values(after)) {
    if (old.at(name) != text) {
      changed.push_back(name);
    }
  }
  const auto challengers = [](const ServerOptions& options) {
    std::map<std::string, OptionValues> all;
    for (const auto& [model, own] : options.challengers) {
      for (const auto& [name, challenger] : own) {
        all[fmt::format("{}/{}", model, name)] = option_values(challenger);
      }
    }
    return all;
  };
  if (before.named_options != after.named_options || challengers(before) != challengers(after)) {
    changed.emplace_back("models");
  }
  return changed;
}

}  // namespace mcnb
