#pragma once

// The kernels of a round, written once: compiled as CUDA they run on a GPU, compiled as plain C++
// they are what the tests hold against the CPU's code.
//
// A kernel is called for each item by a group of sixteen lanes, by a block of threads or by single
// threads. `Block` says how the threads of a block share work: block.sum, block.compact,
// block.for_each and block.once. device_rounds.h says in which order the kernels run.
#include "mcnb/bandit/mcnb/device/draw_kernels.h"
#include "mcnb/bandit/mcnb/device/lesson_kernels.h"
#include "mcnb/bandit/mcnb/device/network_kernels.h"
#include "mcnb/bandit/mcnb/device/theta_kernels.h"
