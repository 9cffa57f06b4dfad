#include <fmt/core.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/serve/server.h"

namespace mcnb {
namespace {

struct ServeFlags {
  std::string config;
  std::map<std::string, std::string> options;  // texts of the flags, by option name
  bool print_config = false;
  bool verify = false;
  bool migrate = false;
  std::vector<std::string> copy;     // from and to
  std::string new_key;               // role of the key
  std::vector<std::string> imports;  // NAME=FILE
};

void print_new_key(const std::string& role) {
  parse_role(role);
  const std::string key = new_api_key();
  fmt::print(
      "# The key, which is stored nowhere else: {}\n[[keys]]\nname = \"{}\"\nrole = \"{}\"\n"
      "sha256 = \"{}\"\n",
      key, role, role, sha256_hex(key));
}

ServerOptions read_options(const ServeFlags& flags) {
  ServerOptions options;
  if (!flags.config.empty()) {
    read_config(flags.config, options);
  }
  for (const auto& [name, text] : flags.options) {
    set_server_option(options, name, text);
  }
  for (const std::string& import : flags.imports) {
    const std::size_t equals = import.find('=');
    const std::string name = import.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == import.size() || !is_model_name(name)) {
      throw Error(
          ErrorKind::kUsage,
          fmt::format("--import \"{}\": expected MODEL=FILE, such as shop=old.dsjson", import));
    }
    options.imports[name] = import.substr(equals + 1);
  }
  return options;
}

void run_serve(const ServeFlags& flags) {
  if (!flags.new_key.empty()) {
    print_new_key(flags.new_key);
    return;
  }
  if (!flags.copy.empty()) {
    fmt::print("{}\n", copy_store(flags.copy[0], flags.copy[1]));
    return;
  }
  const ServerOptions options = read_options(flags);
  if (flags.migrate) {
    fmt::print("{}\n", migrate_store(store_of(options)));
    return;
  }
  if (flags.print_config) {
    fmt::print("{}", config_text(options));
    return;
  }
  if (flags.verify) {
    const Verification found = verify_data(
        store_of(options), static_cast<std::size_t>(options.threads), options.accept_loss);
    for (const std::string& line : found.lines) {
      fmt::print("{}\n", line);
    }
    if (!found.agree) {
      throw CLI::RuntimeError(1);
    }
    return;
  }
  serve(options, [flags] { return read_options(flags); });
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve decisions over HTTP and learn from their rewards");
  command->add_option("--config", flags->config, "TOML file with options; flags override it");
  for (const OptionHelp& option : server_option_help()) {
    std::string flag = "--" + option.name;
    for (char& c : flag) {
      c = c == '_' ? '-' : c;
    }
    command
        ->add_option_function<std::string>(
            flag,
            [flags, name = option.name](const std::string& text) { flags->options[name] = text; },
            option.help)
        ->default_str(option.standard);
  }
  command->add_flag("--print-config", flags->print_config,
                    "Print the configuration as a commented TOML file and exit");
  command->add_flag("--verify", flags->verify,
                    "Verify the whole log, replay it from the oldest snapshot, compare the result "
                    "with the latest state and exit");
  command->add_flag("--migrate", flags->migrate,
                    "Make the tables of a PostgreSQL store (--store) and exit");
  command
      ->add_option("--copy", flags->copy,
                   "Copy a service from one store, a folder or a URL of PostgreSQL, into an empty "
                   "one, compare both bit for bit and exit")
      ->expected(2)
      ->type_name("FROM TO");
  command->add_option("--import", flags->imports,
                      "MODEL=FILE: if there is no such model, make it and let it begin with a "
                      "policy that mcnb train saved, or with a log that it learns first");
  command->add_option(
      "--new-key", flags->new_key,
      "Print a new key with this role and its lines for the configuration, and exit");
  command->callback([flags] { run_serve(*flags); });
}

}  // namespace mcnb
