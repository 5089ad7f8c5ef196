// A few rows times a matrix of four bits per weight.
//
// A token's product is bound by reading the matrix, a tree's by arithmetic. Codes are therefore read once, in memory
// order, and used with as little conversion as possible. Rows in float32 are multiplied as they are. Rows in bfloat16
// are rounded to eight bits with a scale per group of columns, as in llama.cpp: codes are then factors as stored, and
// an instruction does 64 products instead of 32. The matrix's scales are applied to the sums of a group, in float32. A
// row's result does not depend on the number of other rows: a token in a tree has the products of a single token.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "simd.h"

namespace specextend {

constexpr int64_t kGroup = 32;       // columns that share a scale and a zero
constexpr int64_t kStep = 8;         // columns whose codes, for sixteen rows, are 64 bytes
constexpr int64_t kPrefetch = 4096;  // distance in bytes at which codes and scales are prefetched
constexpr int64_t kMostRows = 12;    // whose sums fit the registers

// A lane of codes holds eight columns of a row of the matrix, the even ones in the lower halves of its bytes.

// Rows in float32, and the sums of their groups.
struct Exact {
  using Number = float;
  using Sum = __m512;
  const float* numbers;
  std::vector<float> sums;
  int64_t columns;

  Exact(const float* x, int64_t rows, int64_t columns) : numbers(x), sums(rows * columns / kGroup), columns(columns) {
    for (std::size_t group = 0; group < sums.size(); ++group) {
      float parts[kStep] = {};
      for (int64_t i = 0; i < kGroup; ++i) parts[i % kStep] += x[group * kGroup + i];
      for (float part : parts) sums[group] += part;
    }
  }

  static Sum nothing() { return _mm512_setzero_ps(); }

  // Adds eight columns, whose products with `codes` are those with -8 to 7.
  template <int Count, int Tiles>
  void add(Sum (&sums)[Tiles][Count], __m512i (&codes)[Tiles], int64_t first, int64_t step) const {
    const __m512i half = every_lane(15);
    const __m512 middle = _mm512_set1_ps(8);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kStep; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < Tiles; ++t) {
        const __m512 weights = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_and_si512(codes[t], half)), middle);
        codes[t] = _mm512_srli_epi32(codes[t], 4);
#pragma GCC unroll 12
        for (int row = 0; row < Count; ++row)
          sums[t][row] = _mm512_fmadd_ps(weights, _mm512_set1_ps(numbers[(first + row) * columns + step * kStep + i]),
                                         sums[t][row]);
      }
    }
  }

  static __m512 zero(__m512, __m512 zero) { return zero; }

  __m512 scaled(__m512 total, Sum sum, int64_t row, int64_t group, __m512 scale, __m512 zero) const {
    const __m512 whole = _mm512_set1_ps(sums[row * (columns / kGroup) + group]);
    return _mm512_fmadd_ps(sum, scale, _mm512_fmadd_ps(zero, whole, total));
  }
};

// Rows in bfloat16, as -127 to 127 times a scale for each group.
struct Rounded {
  using Number = c10::BFloat16;
  using Sum = __m512i;
  std::vector<int8_t> numbers;              // [rows, columns]; of eight columns the even ones first
  std::vector<std::array<float, 2>> facts;  // [rows, columns / 32]: a group's scale and sum
  int64_t columns;

  Rounded(const c10::BFloat16* x, int64_t rows, int64_t columns)
      : numbers(rows * columns), facts(rows * columns / kGroup), columns(columns) {
    for (std::size_t group = 0; group < facts.size(); ++group) round(x + group * kGroup, group);
  }

  static Sum nothing() { return _mm512_setzero_si512(); }

  template <int Count, int Tiles>
  void add(Sum (&sums)[Tiles][Count], __m512i (&codes)[Tiles], int64_t first, int64_t step) const {
    const __m512i half = every_lane(0x0f0f0f0f);
#pragma GCC unroll 4
    for (int t = 0; t < Tiles; ++t) {
      const __m512i even = _mm512_and_si512(codes[t], half);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(codes[t], 4), half);
#pragma GCC unroll 12
      for (int row = 0; row < Count; ++row) {
        const int8_t* of_row = numbers.data() + (first + row) * columns + step * kStep;
        sums[t][row] = _mm512_dpbusd_epi32(sums[t][row], even, every_lane(word(of_row)));
        sums[t][row] = _mm512_dpbusd_epi32(sums[t][row], odd, every_lane(word(of_row + kStep / 2)));
      }
    }
  }

  // Codes were taken for 0 to 15, and mean -8 to 7.
  static __m512 zero(__m512 scale, __m512 zero) { return _mm512_fnmadd_ps(_mm512_set1_ps(8), scale, zero); }

  __m512 scaled(__m512 total, Sum sum, int64_t row, int64_t group, __m512 scale, __m512 zero) const {
    const auto& [unit, whole] = facts[row * (columns / kGroup) + group];
    total = _mm512_fmadd_ps(zero, _mm512_set1_ps(whole), total);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scale, _mm512_set1_ps(unit)), total);
  }

 private:
  static uint32_t word(const int8_t* from) {
    uint32_t word;
    std::memcpy(&word, from, sizeof word);
    return word;
  }

  void round(const c10::BFloat16* x, std::size_t group) {
    const __m512 low = Word<c10::BFloat16>::load(x), high = Word<c10::BFloat16>::load(x + kLanes);
    // NaN must stay NaN; a maximum would drop it.
    const float largest = _mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q)
                              ? std::numeric_limits<float>::quiet_NaN()
                              : _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    const __m512 by = _mm512_set1_ps(largest > 0 ? 127 / largest : 0);
    const __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(low, by)),
                  last = _mm512_cvtps_epi32(_mm512_mul_ps(high, by));
    const float unit = largest / 127;
    facts[group] = {unit, unit * static_cast<float>(_mm512_reduce_add_epi32(_mm512_add_epi32(first, last)))};
    const __m128i even_first = _mm_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0);
    auto* to = reinterpret_cast<__m128i*>(numbers.data() + group * kGroup);
    _mm_storeu_si128(to, _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(first), even_first));
    _mm_storeu_si128(to + 1, _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(last), even_first));
  }
};

// `Count` rows from `first` on times sixteen rows of each of `Tiles` tiles. With few rows, several tiles hide the
// latency of dependent sums.
template <typename Rows, int Count, int Tiles>
void multiply(const Rows& x, int64_t first, const uint8_t* codes, const c10::BFloat16* scales,
              typename Rows::Number* out, int64_t stride) {
  const int64_t tile_codes = x.columns / kStep * 64, tile_scales = x.columns / kGroup * 2 * kLanes;
  __m512 total[Tiles][Count];
  for (auto& tile : total)
    for (auto& sum : tile) sum = _mm512_setzero_ps();
  for (int64_t group = 0; group < x.columns / kGroup; ++group) {
    typename Rows::Sum part[Tiles][Count];
    for (auto& tile : part)
      for (auto& sum : tile) sum = Rows::nothing();
#pragma GCC unroll 4
    for (int64_t step = group * kGroup / kStep; step < (group + 1) * kGroup / kStep; ++step) {
      __m512i packed[Tiles];
#pragma GCC unroll 4
      for (int t = 0; t < Tiles; ++t) {
        const uint8_t* from = codes + t * tile_codes + step * 64;
        packed[t] = _mm512_loadu_si512(from);
        _mm_prefetch(from + kPrefetch + (step * 64 + kPrefetch < tile_codes ? 0 : (Tiles - 1) * tile_codes),
                     _MM_HINT_T1);
      }
      x.add(part, packed, first, step);
    }
#pragma GCC unroll 4
    for (int t = 0; t < Tiles; ++t) {
      const c10::BFloat16* of_group = scales + t * tile_scales + group * 2 * kLanes;
      _mm_prefetch(reinterpret_cast<const uint8_t*>(of_group) + kPrefetch, _MM_HINT_T1);
      const __m512 scale = Word<c10::BFloat16>::load(of_group);
      const __m512 zero = Rows::zero(scale, Word<c10::BFloat16>::load(of_group + kLanes));
#pragma GCC unroll 12
      for (int row = 0; row < Count; ++row)
        total[t][row] = x.scaled(total[t][row], part[t][row], first + row, group, scale, zero);
    }
  }
  for (int t = 0; t < Tiles; ++t)
    for (int row = 0; row < Count; ++row)
      Word<typename Rows::Number>::store(out + (first + row) * stride + t * kLanes, total[t][row]);
}

template <typename Rows>
struct Matrix {
  const uint8_t* codes;
  const c10::BFloat16* scales;
  int64_t rows;
  typename Rows::Number* out;

  template <int Count>
  void times(const Rows& x, int64_t first, int64_t begin, int64_t end) const {
    constexpr int tiles = Count == 1 ? 2 : 1;
    int64_t tile = begin;
    for (; tile + tiles <= end; tile += tiles)
      multiply<Rows, Count, tiles>(x, first, at(x, tile), scale(x, tile), out + tile * kLanes, rows);
    for (; tile < end; ++tile)
      multiply<Rows, Count, 1>(x, first, at(x, tile), scale(x, tile), out + tile * kLanes, rows);
  }

 private:
  const uint8_t* at(const Rows& x, int64_t tile) const { return codes + tile * (x.columns / kStep) * 64; }
  const c10::BFloat16* scale(const Rows& x, int64_t tile) const {
    return scales + tile * (x.columns / kGroup) * 2 * kLanes;
  }
};

template <typename Rows, std::size_t... I>
void times(const Matrix<Rows>& matrix, const Rows& x, int64_t rows, int64_t begin, int64_t end,
           std::index_sequence<I...>) {
  using Times = void (Matrix<Rows>::*)(const Rows&, int64_t, int64_t, int64_t) const;
  static constexpr std::array<Times, sizeof...(I)> by_count = {&Matrix<Rows>::template times<I + 1>...};
  const int64_t passes = (rows + kMostRows - 1) / kMostRows;
  for (int64_t pass = 0, first = 0; pass < passes; ++pass) {
    const int64_t count = (rows - first) / (passes - pass);
    (matrix.*by_count[count - 1])(x, first, begin, end);
    first += count;
  }
}

template <typename Rows>
at::Tensor int4_matmul_of(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  const int64_t rows = x.size(0), tiles = codes.size(0);
  at::Tensor out = at::empty({rows, tiles * kLanes}, x.options());
  const Rows prepared(x.const_data_ptr<typename Rows::Number>(), rows, x.size(1));
  const Matrix<Rows> matrix{codes.const_data_ptr<uint8_t>(), scales.const_data_ptr<c10::BFloat16>(), tiles * kLanes,
                            out.mutable_data_ptr<typename Rows::Number>()};
  at::parallel_for(0, tiles, 1, [&](int64_t begin, int64_t end) {
    times(matrix, prepared, rows, begin, end, std::make_index_sequence<kMostRows>());
  });
  return out;
}

// x [n, columns] and a matrix of `rows` -> [n, rows]. codes [rows / 16, columns / 8, 64] uint8: of a tile's sixteen
// rows, eight columns each; scales [rows / 16, columns / 32, 2, 16] bfloat16: scale, zero. A weight is scale * (code -
// 8) + zero.
inline at::Tensor int4_matmul(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  TORCH_CHECK(x.dim() == 2 && x.size(1) % kGroup == 0, "int4_matmul: x is [n, columns], by groups of 32");
  TORCH_CHECK(codes.is_contiguous() && codes.dim() == 3 && codes.size(1) == x.size(1) / kStep && codes.size(2) == 64 &&
                  codes.scalar_type() == at::kByte,
              "int4_matmul: codes are uint8 [rows / 16, columns / 8, 64]");
  TORCH_CHECK(scales.is_contiguous() && scales.numel() == codes.size(0) * (x.size(1) / kGroup) * 2 * kLanes &&
                  scales.scalar_type() == at::kBFloat16,
              "int4_matmul: scales are bfloat16 [rows / 16, columns / 32, 2, 16]");
  const at::Tensor rows = x.contiguous();
  if (x.scalar_type() == at::kBFloat16) return int4_matmul_of<Rounded>(rows, codes, scales);
  TORCH_CHECK(x.scalar_type() == at::kFloat, "int4_matmul: x is bfloat16 or float32");
  return int4_matmul_of<Exact>(rows, codes, scales);
}

}  // namespace specextend
