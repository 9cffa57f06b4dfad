#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mcnb {

/// Ids are types of their own, so that the compiler refuses a user where an arm belongs.
enum class UserId : std::uint32_t {};    ///< row of a user in every per-user table
enum class ArmIndex : std::uint32_t {};  ///< position of an arm within its round
enum class ItemId : std::uint32_t {};    ///< what an arm offers, if items have an identity
enum class RoundId : std::uint64_t {};   ///< address of a decision and of all its random draws

/// The number of an id, to index arrays with.
template <class Id>
requires std::is_enum_v<Id>
constexpr std::size_t index(Id id) { return static_cast<std::size_t>(id); }

}  // namespace mcnb
