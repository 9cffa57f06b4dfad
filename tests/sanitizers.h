#pragma once

namespace mcnb {

// Some tests do less work under the sanitizers, because they take ten times as long there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The thread sanitizer is even slower, and repetition on one thread cannot show it anything new.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace mcnb
