// Softmax and top-k of a drafter's logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd.h"

namespace specextend {

// Numbers from `at` on; behind the `columns` there are, negative infinity.
inline Floats from_row(const float* row, int64_t at, int64_t columns) {
  if (at + kLanes <= columns) return load_as<Floats>(row + at);
  float rest[kLanes];
  std::fill(std::copy(row + at, row + columns, rest), rest + kLanes, -std::numeric_limits<float>::infinity());
  return load_as<Floats>(rest);
}

// The `width` largest logits of each row in descending order, the first ones of equals: softmax and columns.
inline void top_k(const float* logits, int64_t rows, int64_t columns, int64_t width, float* shares, int64_t* ids) {
  for (; rows > 0; --rows, logits += columns, shares += width, ids += width) {
    std::fill(shares, shares + width, -std::numeric_limits<float>::infinity());
    std::fill(ids, ids + width, 0);
    for (int64_t at = 0; at < columns; at += kLanes) {
      if (!any(from_row(logits, at, columns) > shares[width - 1])) continue;
      for (int64_t column = at; column < std::min(at + kLanes, columns); ++column) {
        int64_t place = width;
        for (; place > 0 && logits[column] > shares[place - 1]; --place)
          if (place < width) shares[place] = shares[place - 1], ids[place] = ids[place - 1];
        if (place < width) shares[place] = logits[column], ids[place] = column;
      }
    }
    const float top = shares[0];
    Floats sum = {};
    for (int64_t at = 0; at < columns; at += kLanes) sum += exponential(from_row(logits, at, columns) - top);
    const float total = sum_of(sum);
    for (int64_t i = 0; i < width; ++i) shares[i] = std::exp(shares[i] - top) / total;
  }
}

}  // namespace specextend
