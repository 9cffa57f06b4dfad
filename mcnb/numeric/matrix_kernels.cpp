#include "mcnb/numeric/matrix_kernels.h"

#include "mcnb/numeric/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mcnb/numeric/matrix_kernels.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace mcnb::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<double, kBlock>;
using Vector = hn::Vec<Tag>;
constexpr std::size_t kLanes = HWY_MIN(HWY_LANES(double), kBlock);
constexpr std::size_t kParts = kBlock / kLanes;  // vectors that make up 8 lanes
// Rows of a block whose sums are held in registers at once.
constexpr std::size_t kRows = kParts <= 4 ? kBlock / kParts : 1;

// Eight lanes, in as many vectors as it takes.
struct Eight {
  Vector part[kParts];
};

HWY_INLINE Eight load(const double* from) {
  Eight eight;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kParts; ++i) {
    eight.part[i] = hn::LoadU(Tag(), from + i * kLanes);
  }
  return eight;
}

HWY_INLINE void store(const Eight& eight, double* to) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kParts; ++i) {
    hn::StoreU(eight.part[i], Tag(), to + i * kLanes);
  }
}

HWY_INLINE Eight spread(double value) {
  Eight eight;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kParts; ++i) {
    eight.part[i] = hn::Set(Tag(), value);
  }
  return eight;
}

// a * b + sum
HWY_INLINE Eight multiply_add(const Eight& a, const Eight& b, Eight sum) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kParts; ++i) {
    sum.part[i] = hn::MulAdd(a.part[i], b.part[i], sum.part[i]);
  }
  return sum;
}

// sum - a * b
HWY_INLINE Eight multiply_subtract(const Eight& a, const Eight& b, Eight sum) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kParts; ++i) {
    sum.part[i] = hn::NegMulAdd(a.part[i], b.part[i], sum.part[i]);
  }
  return sum;
}

// Loads the first `count` <= 8 numbers; the other lanes are `rest`.
HWY_INLINE Eight load_first(const double* from, std::size_t count, double rest) {
  alignas(64) double copy[kBlock];
  std::fill(copy, copy + kBlock, rest);
  std::memcpy(copy, from, count * sizeof(double));
  return load(copy);
}

// The rows of a block row that are multiplied with non-zero parts of one vector. About half of a
// gradient is zero (units that are not active), and these parts cost nothing.
struct WeightedRows {
  std::size_t count = 0;
  double parts[kBlock] = {};
  std::size_t starts[kBlock] = {};  // of the rows in a block
};

template <std::size_t kCount>
HWY_INLINE Eight weigh_rows(const WeightedRows& rows, const double* blocks, const double* v,
                            std::size_t count, Eight total) {
  Eight parts[kCount];
  const double* values[kCount];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kCount; ++r) {
    parts[r] = spread(rows.parts[r]);
    values[r] = blocks + rows.starts[r];
  }
  for (std::size_t c = 0; c < count; ++c) {
    Eight sum = spread(0.0);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kCount; ++r) {
      sum = multiply_add(parts[r], load(values[r] + c * kBlockSize), sum);
    }
    total = multiply_add(sum, load(v + c * kBlock), total);
  }
  return total;
}

// lanes += the sum of the rows, each times its part, times v, lane by lane, over `count` blocks.
HWY_INLINE void add_weighted_rows(const WeightedRows& rows, const double* blocks, const double* v,
                                  std::size_t count, double* lanes) {
  Eight total = load(lanes);
  switch (rows.count) {
    case 1:
      total = weigh_rows<1>(rows, blocks, v, count, total);
      break;
    case 2:
      total = weigh_rows<2>(rows, blocks, v, count, total);
      break;
    case 3:
      total = weigh_rows<3>(rows, blocks, v, count, total);
      break;
    case 4:
      total = weigh_rows<4>(rows, blocks, v, count, total);
      break;
    case 5:
      total = weigh_rows<5>(rows, blocks, v, count, total);
      break;
    case 6:
      total = weigh_rows<6>(rows, blocks, v, count, total);
      break;
    case 7:
      total = weigh_rows<7>(rows, blocks, v, count, total);
      break;
    case 8:
      total = weigh_rows<8>(rows, blocks, v, count, total);
      break;
    default:
      break;
  }
  store(total, lanes);
}

// A tile of the block row, and the matching parts of the vectors, fit the first-level cache.
constexpr std::size_t kTile = 32;  // blocks
constexpr std::size_t kVectorsAtOnce = 12;

HWY_INLINE void add_a_few_half_squares(const double* block_row, std::size_t q,
                                       std::span<const BlockVector> vectors, double* lanes) {
  WeightedRows rows[kVectorsAtOnce];
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    rows[i] = {};
    if (!vectors[i].holds(q)) {
      continue;
    }
    const double* own = vectors[i].values + q * kBlock;
    for (std::size_t r = 0; r < kBlock; ++r) {
      rows[i].parts[rows[i].count] = own[r];
      rows[i].starts[rows[i].count] = r * kBlock;
      rows[i].count += own[r] != 0.0 ? 1 : 0;
    }
    WeightedRows halves = rows[i];
    for (double& part : halves.parts) {
      part *= 0.5;
    }
    add_weighted_rows(halves, block_row + q * kBlockSize, own, 1, lanes + i * kBlock);
  }
  // The outer loop is over tiles, so that a tile is read from memory once for all vectors.
  for (std::size_t tile = 0; tile < q; tile += kTile) {
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      for (const BlockRun& run : vectors[i].runs) {
        const std::size_t first = std::max(run.first, tile);
        const std::size_t end = std::min({run.end, tile + kTile, q});
        if (first < end) {
          add_weighted_rows(rows[i], block_row + first * kBlockSize,
                            vectors[i].values + first * kBlock, end - first, lanes + i * kBlock);
        }
      }
    }
  }
}

void AddHalfSquares(const double* block_row, std::size_t q, std::span<const BlockVector> vectors,
                    double* lanes) {
  for (std::size_t i = 0; i < vectors.size(); i += kVectorsAtOnce) {
    const std::size_t count = std::min(kVectorsAtOnce, vectors.size() - i);
    add_a_few_half_squares(block_row, q, vectors.subspan(i, count), lanes + i * kBlock);
  }
}

// Fixed for any width of vectors.
HWY_INLINE double sum_eight(const Eight& eight) {
  alignas(64) double lanes[kBlock];
  store(eight, lanes);
  return sum_lanes(lanes);
}

void AddProduct(const double* block_row, std::size_t q, const double* v, double* product) {
  const double* own = v + q * kBlock;
  for (std::size_t first = 0; first < kBlock; first += kRows) {
    Eight sums[kRows];
    Eight parts[kRows];
    bool any = false;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      sums[r] = spread(0.0);
      parts[r] = spread(own[first + r]);
      any |= own[first + r] != 0.0;
    }
    const double* HWY_RESTRICT block = block_row + first * kBlock;
    if (any) {
      for (std::size_t c = 0; c < q; ++c, block += kBlockSize) {
        const Eight values = load(v + c * kBlock);
        Eight mirrored = load(product + c * kBlock);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRows; ++r) {
          const Eight row = load(block + r * kBlock);
          sums[r] = multiply_add(row, values, sums[r]);
          mirrored = multiply_add(row, parts[r], mirrored);
        }
        store(mirrored, product + c * kBlock);
      }
    } else {
      for (std::size_t c = 0; c < q; ++c, block += kBlockSize) {
        const Eight values = load(v + c * kBlock);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRows; ++r) {
          sums[r] = multiply_add(load(block + r * kBlock), values, sums[r]);
        }
      }
    }
    const Eight values = load(own);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      sums[r] = multiply_add(load(block + r * kBlock), values, sums[r]);
      product[q * kBlock + first + r] += sum_eight(sums[r]);
    }
  }
}

template <bool kSubtract>
HWY_INLINE void add_outer(double* block_row, std::size_t q, const double* panel,
                          std::size_t count) {
  const double* own = panel + q * count * kBlock;
  for (std::size_t c = 0; c <= q; ++c) {
    const double* other = panel + c * count * kBlock;
    for (std::size_t first = 0; first < kBlock; first += kRows) {
      double* HWY_RESTRICT block = block_row + c * kBlockSize + first * kBlock;
      Eight rows[kRows];
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        rows[r] = load(block + r * kBlock);
      }
      for (std::size_t k = 0; k < count; ++k) {
        const Eight values = load(other + k * kBlock);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRows; ++r) {
          const Eight part = spread(own[k * kBlock + first + r]);
          rows[r] = kSubtract ? multiply_subtract(part, values, rows[r])
                              : multiply_add(part, values, rows[r]);
        }
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        store(rows[r], block + r * kBlock);
      }
    }
  }
}

void AddOuterProducts(double* block_row, std::size_t q, const double* panel, std::size_t count,
                      bool subtract) {
  if (subtract) {
    add_outer<true>(block_row, q, panel, count);
  } else {
    add_outer<false>(block_row, q, panel, count);
  }
}

template <std::size_t kCount>
HWY_INLINE void find_some_dots(const BlockVector& v, const double* vectors, std::size_t stride,
                               double* dots) {
  Eight sums[kCount];
#pragma GCC unroll 4
  for (std::size_t k = 0; k < kCount; ++k) {
    sums[k] = spread(0.0);
  }
  for (const BlockRun& run : v.runs) {
    for (std::size_t i = run.first * kBlock; i < run.end * kBlock; i += kBlock) {
      const Eight values = load(v.values + i);
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kCount; ++k) {
        sums[k] = multiply_add(values, load(vectors + k * stride + i), sums[k]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t k = 0; k < kCount; ++k) {
    dots[k] = sum_eight(sums[k]);
  }
}

void FindDots(const BlockVector& v, const double* vectors, std::size_t stride, std::size_t count,
              double* dots) {
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    find_some_dots<4>(v, vectors + k * stride, stride, dots + k);
  }
  for (; k < count; ++k) {
    find_some_dots<1>(v, vectors + k * stride, stride, dots + k);
  }
}

double Weigh(std::span<const double> rows, std::span<const double> columns, const double* weights) {
  const std::size_t whole = columns.size() / kBlock * kBlock;
  const std::size_t left = columns.size() - whole;
  const Eight last = load_first(columns.data() + whole, left, 0.0);
  Eight total = spread(0.0);
  for (const double row : rows) {
    Eight sum = spread(0.0);
    for (std::size_t j = 0; j < whole; j += kBlock) {
      sum = multiply_add(load(columns.data() + j), load(weights + j), sum);
    }
    if (left > 0) {
      sum = multiply_add(last, load_first(weights + whole, left, 0.0), sum);
    }
    total = multiply_add(spread(row), sum, total);
    weights += columns.size();
  }
  return sum_eight(total);
}

template <class AnyTag>
HWY_INLINE void shrink_vector(AnyTag tag, double row, const double* columns, double* weights) {
  const auto weight = hn::LoadU(tag, weights);
  const auto square = hn::Mul(hn::Set(tag, row), hn::LoadU(tag, columns));
  hn::StoreU(hn::Div(weight, hn::MulAdd(square, weight, hn::Set(tag, 1.0))), tag, weights);
}

void Shrink(std::span<const double> rows, std::span<const double> columns, double* weights) {
  const hn::CappedTag<double, 1> one;
  for (const double row : rows) {
    std::size_t j = 0;
    for (; j + kLanes <= columns.size(); j += kLanes) {
      shrink_vector(Tag(), row, columns.data() + j, weights + j);
    }
    for (; j < columns.size(); ++j) {
      shrink_vector(one, row, columns.data() + j, weights + j);
    }
    weights += columns.size();
  }
}

}  // namespace
}  // namespace mcnb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mcnb::kernels {

HWY_EXPORT(AddHalfSquares);
HWY_EXPORT(AddProduct);
HWY_EXPORT(AddOuterProducts);
HWY_EXPORT(FindDots);
HWY_EXPORT(Weigh);
HWY_EXPORT(Shrink);

void add_half_squares(const double* block_row, std::size_t q, std::span<const BlockVector> vectors,
                      double* lanes) {
  HWY_DYNAMIC_DISPATCH(AddHalfSquares)(block_row, q, vectors, lanes);
}

void add_product(const double* block_row, std::size_t q, const double* v, double* product) {
  HWY_DYNAMIC_DISPATCH(AddProduct)(block_row, q, v, product);
}

void add_outer_products(double* block_row, std::size_t q, const double* panel, std::size_t count,
                        bool subtract) {
  HWY_DYNAMIC_DISPATCH(AddOuterProducts)(block_row, q, panel, count, subtract);
}

void find_dots(const BlockVector& v, const double* vectors, std::size_t stride, std::size_t count,
               double* dots) {
  HWY_DYNAMIC_DISPATCH(FindDots)(v, vectors, stride, count, dots);
}

double weigh(std::span<const double> rows, std::span<const double> columns, const double* weights) {
  return HWY_DYNAMIC_DISPATCH(Weigh)(rows, columns, weights);
}

void shrink(std::span<const double> rows, std::span<const double> columns, double* weights) {
  HWY_DYNAMIC_DISPATCH(Shrink)(rows, columns, weights);
}

}  // namespace mcnb::kernels
#endif  // HWY_ONCE
