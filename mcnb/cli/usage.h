#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace mcnb {

// The known word that is most like the given one; empty if none is like it.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

// ": did you mean WORD?", or otherwise where the help is.
std::string advice(const std::string& nearest, const std::string& command);

// The names of an app's subcommands.
std::vector<std::string> subcommand_names(const CLI::App& app);

// Throws Error (kUsage) for the first flag that its command does not have. CLI11 itself would take
// what follows an unknown flag as an argument of the command, and complain about that.
void refuse_unknown_flags(const CLI::App& app, const std::vector<std::string>& words);

// Lets all flags for whole numbers take 1e4, too.
void accept_powers_of_ten(CLI::App& app);

}  // namespace mcnb
