#pragma once

namespace mcnb {

// Under the sanitizers some tests do less: they take ten times as long there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace mcnb
