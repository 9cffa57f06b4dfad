#pragma once

namespace mcnb {

// After a fork, the system splits each large page of which a byte changes into small ones, and
// leaves it so. That makes the next fork slower, and reading at random.
//
// Puts all memory of this process for which large pages were asked (slab.h) back into them, without
// changing a byte; other threads may use it meanwhile. Call it when the child is gone. Takes about
// 0.1 s of the processor for each GB that was split. Does nothing where the system cannot (Linux
// before 6.1).
void restore_large_pages();

}  // namespace mcnb
