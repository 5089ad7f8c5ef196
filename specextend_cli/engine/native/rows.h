// Rows of numbers in float32, by their own strides.
//
// Threads write neighbouring columns of all rows. Stored by rows, these would lie beside other threads' columns, whose
// cache lines would pass between cores at every job. Stored by tiles, a thread's columns are one piece of memory.
#pragma once

#include <cstdint>

namespace specextend {

constexpr int64_t kTile = 16;  // columns that lie together: the 64 bytes of a cache line

template <typename Number>
struct Grid {
  Number* numbers;
  int64_t by_row, by_tile;

  static Grid by_rows(Number* numbers, int64_t columns) { return {numbers, columns, kTile}; }
  static Grid by_tiles(Number* numbers, int64_t rows) { return {numbers, kTile, rows * kTile}; }

  // A place from which the numbers of a tile's remaining columns follow.
  Number* at(int64_t row, int64_t column) const {
    return numbers + row * by_row + column / kTile * by_tile + column % kTile;
  }

  Grid from_row(int64_t row) const { return {numbers + row * by_row, by_row, by_tile}; }
  operator Grid<const Number>() const { return {numbers, by_row, by_tile}; }
};

using Rows = Grid<const float>;
using Sums = Grid<float>;

}  // namespace specextend
