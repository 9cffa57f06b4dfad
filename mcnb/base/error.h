#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace mcnb {

/// What went wrong, as far as a caller has to tell cases apart.
enum class ErrorKind {
  kUsage,    ///< the caller asked for something that makes no sense: an option, an argument
  kInput,    ///< data from outside is wrong: a file's contents, a number that is not finite
  kLimit,    ///< more than this program or machine can hold
  kSystem,   ///< the operating system refused: no such file, disk full
  kCorrupt,  ///< a file that this program wrote is damaged
};

/// The one exception of the project. It is thrown where the fault is found; the message names the
/// location and what was expected ("ratings.csv:17: expected 3 columns, found 2").
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

  /// An error of the same kind with a context before the message: within("policy club") turns
  /// "option alpha: ..." into "policy club: option alpha: ...".
  Error within(const std::string& context) const { return {kind_, context + ": " + what()}; }

 private:
  ErrorKind kind_;
};

/// Returns action(). If it throws an Error, throws that error within `context` instead.
template <class Action>
decltype(auto) within(const std::string& context, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const Error& error) {
    throw error.within(context);
  }
}

}  // namespace mcnb
