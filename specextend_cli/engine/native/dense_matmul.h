// A few rows times a matrix in bfloat16 or float32, stored by rows. Bound by reading the matrix, as `int4_matmul.h`.
//
// A row's result does not depend on the number of other rows.
#pragma once

#include <algorithm>
#include <vector>

#include "rows.h"
#include "simd.h"

namespace specextend {

// Rows in the matrix's format.
template <typename T>
class Plain {
 public:
  int64_t columns = 0;

  void prepare(const Rows& x, int64_t rows, int64_t count) {
    columns = count;
    numbers_.resize(rows * count);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < count; i += kLanes)
        Word<T>::store(&numbers_[row * count + i], Word<float>::load(x.at(row, i)));
  }

  const T* row(int64_t index) const { return &numbers_[index * columns]; }

 private:
  std::vector<T> numbers_;
};

// `Count` rows from `first` on times `Outputs` rows of the matrix from `output` on.
template <typename T, int Count, int Outputs>
void multiply_dense(const Plain<T>& x, int64_t first, const T* weights, int64_t output, const Sums& out) {
  Floats sums[Outputs][Count] = {};
  for (int64_t at = 0; at < x.columns; at += kLanes * Word<T>::numbers) {
    Ints numbers[Count];
#pragma GCC unroll 4
    for (int row = 0; row < Count; ++row) numbers[row] = load_as<Ints>(x.row(first + row) + at);
#pragma GCC unroll 4
    for (int o = 0; o < Outputs; ++o) {
      const Ints weight = load_as<Ints>(weights + (output + o) * x.columns + at);
#pragma GCC unroll 4
      for (int row = 0; row < Count; ++row) sums[o][row] = Word<T>::multiply_add(sums[o][row], weight, numbers[row]);
    }
  }
  for (int o = 0; o < Outputs; ++o)
    for (int row = 0; row < Count; ++row) *out.at(first + row, output + o) = sum_of(sums[o][row]);
}

// Rows times the matrix's rows from `begin` to `end`, to the columns of `out` that have their numbers.
template <typename T>
void times_dense(const Plain<T>& x, int64_t rows, const T* weights, int64_t begin, int64_t end, const Sums& out) {
  constexpr int few = kRegisters == 32 ? 4 : 2;
  for (int64_t output = begin; output < end; ++output) {
    int64_t first = 0;
    if (output + 4 <= end) {
      for (; first + few <= rows; first += few) multiply_dense<T, few, 4>(x, first, weights, output, out);
      for (; first < rows; ++first) multiply_dense<T, 1, 4>(x, first, weights, output, out);
      output += 3;
    } else {
      for (; first < rows; ++first) multiply_dense<T, 1, 1>(x, first, weights, output, out);
    }
  }
}

}  // namespace specextend
