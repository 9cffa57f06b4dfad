// Completion for shells and the manual page, from the commands and flags themselves.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/options.h"
#include "mcnb/cli/program_commands.h"
#include "mcnb/data/sets/catalogue.h"
#include "mcnb/environment/environments.h"
#include "mcnb/experiment/plan/plan.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

struct Word {
  std::string name;
  std::string help;                // one line
  std::string value;               // what a flag expects; empty for none
  std::vector<std::string> names;  // those that a flag or an argument may have, if they are known
};

// A command with what may follow it.
struct Command {
  std::string path;  // "mcnb data list"
  std::string help;
  std::vector<Word> commands;
  std::vector<Word> flags;
  std::vector<Word> arguments;
};

std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

template <class Entries>
std::vector<std::string> names_in(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    names.emplace_back(entry.name);
  }
  return names;
}

// What may follow a flag, or be an argument, of a command.
std::vector<std::string> known_names(const std::string& path, const std::string& word) {
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::ranges::find(words, word) != words.end();
  };
  if (path == "mcnb evaluate" && is({"policy", "baseline"})) {
    return {"random", "first", "action=", "state=", "frequency=", "replay=", "progressive="};
  }
  if (is({"policy", "policies", "challenger"}) || (path == "mcnb policies" && is({"name"}))) {
    return names_in(experiment_policy_help());
  }
  if (is({"environment", "environments", "datasets"}) ||
      (path == "mcnb environments" && is({"name"}))) {
    return names_in(environment_help());
  }
  if (path.starts_with("mcnb data ") && is({"name"})) {
    return names_in(data_sets());
  }
  if (path == "mcnb reproduce" && is({"NAME"})) {
    std::vector<std::string> names = paper_plans();
    names.emplace_back("all");
    return names;
  }
  if (is({"device"})) {
    return {"cpu", "cuda"};
  }
  if (is({"reward-model"})) {
    return {"ridge", "network"};
  }
  if (is({"format"})) {
    return path == "mcnb evaluate" ? std::vector<std::string>{"table", "json", "csv"}
                                   : std::vector<std::string>{"dsjson", "jsonl", "csv"};
  }
  return is({"SHELL"}) ? std::vector<std::string>{"bash", "zsh", "fish"}
                       : std::vector<std::string>();
}

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& all) {
  Command command{path, one_line(app.get_description()), {}, {}, {}};
  const auto children = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* child : children) {
    command.commands.push_back({child->get_name(), one_line(child->get_description()), "", {}});
  }
  for (const CLI::Option* option : app.get_options()) {
    const std::string value =
        option->get_items_expected_min() > 0 ? option->get_type_name() : std::string();
    for (const std::string& name : option->get_lnames()) {
      command.flags.push_back({"--" + name, one_line(option->get_description()), value,
                               known_names(path, name)});
    }
    if (option->get_positional() && option->get_lnames().empty()) {
      command.arguments.push_back({option->get_name(), one_line(option->get_description()), "",
                                   known_names(path, option->get_name())});
    }
  }
  all.push_back(std::move(command));
  for (const CLI::App* child : children) {
    collect(*child, path + " " + child->get_name(), all);
  }
}

// In single quotes for a shell.
std::string shell_quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) {
    safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return safe + "'";
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> all;
  collect(app, app.get_name(), all);
  // `mcnb help` takes the names of commands.
  for (Command& command : all) {
    for (Word& argument : command.arguments) {
      if (argument.name == "COMMAND") {
        argument.names = names_in(all.front().commands);
      }
    }
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// What may come next after a command.
std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> words;
  for (const Word& argument : command.arguments) {
    words.insert(words.end(), argument.names.begin(), argument.names.end());
  }
  for (const auto* list : {&command.commands, &command.flags}) {
    for (const Word& word : *list) {
      words.push_back(word.name);
    }
  }
  return words;
}

// What a shell does with the names that may follow a flag.
struct ValueCode {
  const char* before;
  const char* after;
  const char* no_names;  // the value is a file, for all that is known
};

// The cases of a shell's `case` for a command and the flag before the word.
std::string values_after_flags(const std::vector<Command>& all, const ValueCode& code) {
  std::string text;
  for (const Command& command : all) {
    for (const Word& flag : command.flags) {
      if (!flag.value.empty()) {
        const std::string action =
            flag.names.empty() ? code.no_names : code.before + joined(flag.names) + code.after;
        const std::string at = shell_quoted(command.path + " " + flag.name);
        text += fmt::format("    {}) {} ;;\n", at, action);
      }
    }
  }
  return text;
}

// The cases of a shell's `case` that go from a command and the next word to a subcommand.
std::string steps(const std::vector<Command>& all, const char* indent) {
  std::string text;
  for (const Command& command : all) {
    for (const Word& child : command.commands) {
      text +=
          fmt::format("{0}{1}) at={1} ;;\n", indent, shell_quoted(command.path + " " + child.name));
    }
  }
  return text;
}

std::string bash_completion(const std::vector<Command>& all) {
  std::string text =
      "# Completion of mcnb for bash, made by: mcnb completion bash\n"
      "_mcnb() {\n"
      "  local at=mcnb words= i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$at ${COMP_WORDS[i]}\" in\n" +
      steps(all, "      ") +
      "    esac\n"
      "  done\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} before= names=\n"
      "  COMPREPLY=()\n"
      "  if [[ $word == = ]]; then\n"
      "    word=\n"
      "  elif [[ $flag == = ]]; then\n"
      "    flag=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  fi\n"
      "  case \"$at $flag\" in\n" +
      values_after_flags(all, {"names='", "'", "return"}) +
      "  esac\n"
      "  if [[ $names ]]; then\n"
      "    [[ $word != *,* ]] || before=${word%,*},\n"
      "    COMPREPLY=($(compgen -P \"$before\" -W \"$names\" -- \"${word##*,}\"))\n"
      "    return\n"
      "  fi\n"
      "  case $at in\n";
  for (const Command& command : all) {
    text += fmt::format("    {}) words={} ;;\n", shell_quoted(command.path),
                        shell_quoted(joined(words_of(command))));
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o default -F _mcnb mcnb\n";
}

std::string zsh_completion(const std::vector<Command>& all) {
  std::string text =
      "#compdef mcnb\n"
      "# Completion of mcnb for zsh, made by: mcnb completion zsh\n"
      "_mcnb() {\n"
      "  local at=mcnb i\n"
      "  local -a choices\n"
      "  for ((i = 2; i < CURRENT; ++i)); do\n"
      "    case \"$at ${words[i]}\" in\n" +
      steps(all, "      ") +
      "    esac\n"
      "  done\n"
      "  local flag=${words[CURRENT-1]}\n"
      "  if compset -P '--*='; then\n"
      "    flag=${IPREFIX%=}\n"
      "  fi\n"
      "  case \"$at $flag\" in\n" +
      values_after_flags(all, {"compset -P '*,'; compadd ", "; return", "_files; return"}) +
      "  esac\n"
      "  case $at in\n";
  for (const Command& command : all) {
    text += fmt::format("    {})\n      choices=(\n", shell_quoted(command.path));
    for (const auto* list : {&command.commands, &command.flags}) {
      for (const Word& word : *list) {
        text += fmt::format("        {}\n", shell_quoted(word.name + ":" + word.help));
      }
    }
    for (const Word& argument : command.arguments) {
      for (const std::string& name : argument.names) {
        text += fmt::format("        {}\n", shell_quoted(name));
      }
    }
    text += "      ) ;;\n";
  }
  return text +
         "  esac\n"
         "  _describe 'mcnb' choices || _files\n"
         "}\n"
         // Read by `source`, the file defines the function; as a file of $fpath, it is the
         // function.
         "if [[ ${funcstack[1]} == _mcnb ]]; then\n"
         "  _mcnb \"$@\"\n"
         "else\n"
         "  compdef _mcnb mcnb\n"
         "fi\n";
}

// In single quotes for fish, whose rules differ.
std::string fish_quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) {
    safe += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return safe + "'";
}

std::string fish_completion(const std::vector<Command>& all) {
  std::string paths;
  for (const Command& command : all) {
    paths += " " + fish_quoted(command.path);
  }
  std::string text = fmt::format(
      "# Completion of mcnb for fish, made by: mcnb completion fish\n"
      "function __mcnb_at\n"
      "  set -l known{}\n"
      "  set -l at mcnb\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if contains -- \"$at $word\" $known\n"
      "      set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv\"\n"
      "end\n"
      "# Names, of which several may stand with commas between them.\n"
      "function __mcnb_list\n"
      "  set -l before (commandline -ct | string replace -r '^--[^=]*=' '' | string match -r "
      "'^.*,')\n"
      "  printf '%s\\n' \"$before\"$argv\n"
      "end\n",
      paths);
  for (const Command& command : all) {
    const std::string where =
        fmt::format("complete -c mcnb -n {}", fish_quoted("__mcnb_at " + command.path));
    for (const Word& child : command.commands) {
      text += fmt::format("{} -f -a {} -d {}\n", where, child.name, fish_quoted(child.help));
    }
    for (const Word& argument : command.arguments) {
      if (!argument.names.empty()) {
        text += fmt::format("{} -f -a {}\n", where, fish_quoted(joined(argument.names)));
      }
    }
    for (const Word& flag : command.flags) {
      const std::string name = flag.name.substr(2);
      text += fmt::format("{} -l {}{} -d {}\n", where, name, flag.value.empty() ? "" : " -r",
                          fish_quoted(flag.help));
      if (!flag.names.empty()) {
        text += fmt::format("{} -l {} -x -a \"(__mcnb_list {})\"\n", where, name,
                            joined(flag.names));
      }
    }
  }
  return text;
}

// A text for man(7): no character of it is a command.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  }
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

}  // namespace

std::string completion_of(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> all = commands_of(app);
  if (shell == "bash") {
    return bash_completion(all);
  }
  if (shell == "zsh") {
    return zsh_completion(all);
  }
  if (shell == "fish") {
    return fish_completion(all);
  }
  refuse_option("SHELL", "bash, zsh or fish", shell);
}

std::string manual_of(const CLI::App& app) {
  const std::vector<Command> all = commands_of(app);
  std::string text = fmt::format(
      ".TH MCNB 1 \"\" \"mcnb {}\" \"User Commands\"\n"
      ".SH NAME\nmcnb \\- clustered contextual bandits: experiments and an online service\n"
      ".SH SYNOPSIS\n.B mcnb\n.I COMMAND\n.RI [ FLAGS ]\n"
      ".SH DESCRIPTION\n"
      "A contextual bandit chooses one of several actions for a user and learns from the reward of "
      "what it chose.\n"
      "mcnb has policies that share what they learn among users, runs experiments with them, "
      "estimates from logs what a policy would have earned, and serves decisions over HTTP.\n",
      MCNB_VERSION);
  for (const Command& command : all) {
    text += fmt::format(".SH {}\n{}\n", roff(command.path), roff(command.help));
    for (const auto* list : {&command.commands, &command.arguments, &command.flags}) {
      for (const Word& word : *list) {
        text += fmt::format(".TP\n.B {}{}\n{}\n", roff(word.name),
                            word.value.empty() ? "" : " " + roff(word.value), roff(word.help));
      }
    }
  }
  return text +
         ".SH EXIT STATUS\n0 if all went well, 2 for a wrong command line or option, 130 after an "
         "interruption that can be continued, otherwise 1.\n"
         ".SH ENVIRONMENT\n.TP\n.B MCNB_SIMD\nThe instruction set: avx512, avx2, sse4 or plain.\n"
         ".TP\n.B MCNB_DATA\nThe folder with the data sets.\n"
         ".TP\n.B NO_COLOR\nIf set, nothing is coloured.\n"
         ".SH FILES\n.TP\n.I /etc/mcnb/serve.toml\nThe configuration of the service.\n"
         ".TP\n.I /usr/share/doc/mcnb\nThe service's HTTP API and what it promises.\n";
}

}  // namespace mcnb
