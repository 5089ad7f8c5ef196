// A few rows times a matrix of four bits a weight.
//
// A token's product is bound by reading the matrix, a tree's by arithmetic. So codes are read once, in the order in
// which they lie in memory, and become bfloat16 in two instructions for 32 of them; what they mean, -8 to 7, is exact
// there. Scales are applied to the sums of a group of columns, in float32. What comes out of a row does not depend on
// how many others there are: a token that is checked in a tree has the very products of one that is read alone.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "words.h"

namespace specextend {

constexpr int64_t kGroup = 32;     // columns that share a scale and a zero
constexpr int64_t kStep = 8;       // columns whose codes, of sixteen rows, are 64 bytes
constexpr int64_t kAhead = 2048;   // bytes
constexpr int64_t kMostRows = 12;  // whose sums fit the registers

// A lane of codes holds eight columns of a row, and is shifted out by fours: columns 0 and 4, then 1 and 5, and so on.
template <typename T>
struct Rows {
  std::vector<T> numbers;   // [rows, columns], in that order
  std::vector<float> sums;  // [rows, columns / 32]
  int64_t columns;

  Rows(const T* x, int64_t rows, int64_t columns)
      : numbers(rows * columns), sums(rows * columns / kGroup), columns(columns) {
    for (int64_t at = 0; at < rows * columns; at += kGroup) {
      float parts[kStep] = {};
      for (int64_t step = at; step < at + kGroup; step += kStep) {
        for (int64_t i = 0; i < kStep; ++i) parts[i] += static_cast<float>(x[step + i]);
        for (int64_t i = 0; i < kStep / 2; ++i) {
          numbers[step + 2 * i] = x[step + i];
          numbers[step + 2 * i + 1] = x[step + kStep / 2 + i];
        }
      }
      float sum = 0;
      for (float part : parts) sum += part;
      sums[at / kGroup] = sum;
    }
  }

  const uint32_t* words(int64_t row, int64_t column) const {
    return reinterpret_cast<const uint32_t*>(numbers.data() + row * columns + column);
  }
};

// What the codes mean, in bfloat16; twice, because a permutation looks at five bits of an index, of which four are
// ours.
inline __m512i meanings() {
  alignas(64) c10::BFloat16 table[32];
  for (int i = 0; i < 32; ++i) table[i] = static_cast<float>((i & 15) - 8);
  return _mm512_load_si512(table);
}

// `weights`: two columns of sixteen rows of the matrix; `x`: two numbers of a row.
inline __m512 add_products(__m512 sum, __m512i weights, const uint32_t* x, c10::BFloat16) {
  return Word<c10::BFloat16>::multiply_add(sum, weights, every_lane(x[0]));
}

inline __m512 add_products(__m512 sum, __m512i weights, const uint32_t* x, float) {
  sum = Word<float>::multiply_add(sum, _mm512_slli_epi32(weights, 16), every_lane(x[0]));
  return Word<float>::multiply_add(sum, _mm512_and_si512(weights, every_lane(0xffff0000)), every_lane(x[1]));
}

// `Count` rows from `first` on times sixteen rows of each of `Tiles` tiles. Several tiles, where rows are few, because
// a sum waits for the one before it.
template <typename T, int Count, int Tiles>
void multiply(const Rows<T>& x, int64_t first, const uint8_t* codes, const c10::BFloat16* scales, T* out,
              int64_t stride) {
  const __m512i table = meanings();
  const int64_t tile_codes = x.columns / kStep * 64, tile_scales = x.columns / kGroup * 2 * kLanes;
  __m512 total[Tiles][Count];
  for (auto& tile : total)
    for (auto& sum : tile) sum = _mm512_setzero_ps();
  for (int64_t group = 0; group < x.columns / kGroup; ++group) {
    __m512 part[Tiles][Count];
    for (auto& tile : part)
      for (auto& sum : tile) sum = _mm512_setzero_ps();
    for (int64_t step = group * kGroup / kStep; step < (group + 1) * kGroup / kStep; ++step) {
      __m512i packed[Tiles];
#pragma GCC unroll 4
      for (int t = 0; t < Tiles; ++t) {
        const uint8_t* from = codes + t * tile_codes + step * 64;
        packed[t] = _mm512_loadu_si512(from);
        _mm_prefetch(from + kAhead + (step * 64 + kAhead < tile_codes ? 0 : (Tiles - 1) * tile_codes), _MM_HINT_T1);
      }
#pragma GCC unroll 4
      for (int64_t pair = 0; pair < kStep / 2; ++pair) {
#pragma GCC unroll 4
        for (int t = 0; t < Tiles; ++t) {
          const __m512i weights = _mm512_permutexvar_epi16(packed[t], table);
          packed[t] = _mm512_srli_epi16(packed[t], 4);
#pragma GCC unroll 12
          for (int row = 0; row < Count; ++row)
            part[t][row] = add_products(part[t][row], weights, x.words(first + row, step * kStep + 2 * pair), T());
        }
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < Tiles; ++t) {
      const c10::BFloat16* of_group = scales + t * tile_scales + group * 2 * kLanes;
      const __m512 scale = Word<c10::BFloat16>::load(of_group), zero = Word<c10::BFloat16>::load(of_group + kLanes);
#pragma GCC unroll 12
      for (int row = 0; row < Count; ++row) {
        const __m512 sum = _mm512_set1_ps(x.sums[(first + row) * (x.columns / kGroup) + group]);
        total[t][row] = _mm512_fmadd_ps(part[t][row], scale, _mm512_fmadd_ps(zero, sum, total[t][row]));
      }
    }
  }
  for (int t = 0; t < Tiles; ++t)
    for (int row = 0; row < Count; ++row) Word<T>::store(out + (first + row) * stride + t * kLanes, total[t][row]);
}

template <typename T>
struct Matrix {
  const uint8_t* codes;
  const c10::BFloat16* scales;
  int64_t rows;
  T* out;

  template <int Count>
  void times(const Rows<T>& x, int64_t first, int64_t begin, int64_t end) const {
    constexpr int tiles = Count <= 2 ? 4 : Count <= 6 ? 2 : 1;
    int64_t tile = begin;
    for (; tile + tiles <= end; tile += tiles)
      multiply<T, Count, tiles>(x, first, at(x, tile), scale(x, tile), out + tile * kLanes, rows);
    for (; tile < end; ++tile) multiply<T, Count, 1>(x, first, at(x, tile), scale(x, tile), out + tile * kLanes, rows);
  }

 private:
  const uint8_t* at(const Rows<T>& x, int64_t tile) const { return codes + tile * (x.columns / kStep) * 64; }
  const c10::BFloat16* scale(const Rows<T>& x, int64_t tile) const {
    return scales + tile * (x.columns / kGroup) * 2 * kLanes;
  }
};

template <typename T, std::size_t... I>
void times(const Matrix<T>& matrix, const Rows<T>& x, int64_t rows, int64_t begin, int64_t end,
           std::index_sequence<I...>) {
  using Times = void (Matrix<T>::*)(const Rows<T>&, int64_t, int64_t, int64_t) const;
  static constexpr std::array<Times, sizeof...(I)> by_count = {&Matrix<T>::template times<I + 1>...};
  const int64_t passes = (rows + kMostRows - 1) / kMostRows;
  for (int64_t pass = 0, first = 0; pass < passes; ++pass) {
    const int64_t count = (rows - first) / (passes - pass);
    (matrix.*by_count[count - 1])(x, first, begin, end);
    first += count;
  }
}

template <typename T>
at::Tensor few_rows_of(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  const int64_t rows = x.size(0), tiles = codes.size(0);
  at::Tensor out = at::empty({rows, tiles * kLanes}, x.options());
  const Rows<T> prepared(x.const_data_ptr<T>(), rows, x.size(1));
  const Matrix<T> matrix{codes.const_data_ptr<uint8_t>(), scales.const_data_ptr<c10::BFloat16>(), tiles * kLanes,
                         out.mutable_data_ptr<T>()};
  at::parallel_for(0, tiles, 1, [&](int64_t begin, int64_t end) {
    times(matrix, prepared, rows, begin, end, std::make_index_sequence<kMostRows>());
  });
  return out;
}

// x [n, columns] and a matrix of `rows` -> [n, rows]. codes [rows / 16, columns / 8, 64] uint8: of a tile's sixteen
// rows, eight columns each; scales [rows / 16, columns / 32, 2, 16] bfloat16: scale, zero. A weight is scale * (code -
// 8) + zero.
inline at::Tensor few_rows(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  TORCH_CHECK(x.dim() == 2 && x.size(1) % kGroup == 0, "few_rows: x is [n, columns], by groups of 32");
  TORCH_CHECK(codes.is_contiguous() && codes.dim() == 3 && codes.size(1) == x.size(1) / kStep && codes.size(2) == 64 &&
                  codes.scalar_type() == at::kByte,
              "few_rows: codes are uint8 [rows / 16, columns / 8, 64]");
  TORCH_CHECK(scales.is_contiguous() && scales.numel() == codes.size(0) * (x.size(1) / kGroup) * 2 * kLanes &&
                  scales.scalar_type() == at::kBFloat16,
              "few_rows: scales are bfloat16 [rows / 16, columns / 32, 2, 16]");
  const at::Tensor rows = x.contiguous();
  if (x.scalar_type() == at::kBFloat16) return few_rows_of<c10::BFloat16>(rows, codes, scales);
  TORCH_CHECK(x.scalar_type() == at::kFloat, "few_rows: x is bfloat16 or float32");
  return few_rows_of<float>(rows, codes, scales);
}

}  // namespace specextend
