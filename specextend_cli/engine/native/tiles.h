// Matrix products of whole tiles, by Intel's Advanced Matrix Extensions (AMX).
//
// A tile is up to sixteen rows of 64 bytes. Of a product's right side a row holds, for each of sixteen columns, one
// word: two numbers in bfloat16, or four bytes. A row of the result does not depend on the other rows.
#pragma once

#include "simd.h"

namespace specextend {

constexpr int64_t kTileRows = 16, kTileBytes = 64;

#if defined(__AMX_BF16__) && defined(__AMX_INT8__)

constexpr bool kHasTiles = true;

// This thread's tiles: 0 and 1 are results and 2 is a left side, with `rows` rows; 3 to 7 are whole.
class TileShapes {
 public:
  // Lets the whole tiles be used.
  static void set_any() {
    if (current() == 0) set(kTileRows);
  }

  static void set(int64_t rows) {
    if (rows == current()) return;
    current() = rows;
    struct alignas(64) {
      uint8_t palette = 1, start = 0, unused[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } shapes;
    for (int tile = 0; tile < 8; ++tile) {
      shapes.bytes[tile] = kTileBytes;
      shapes.rows[tile] = static_cast<uint8_t>(tile > 2 ? kTileRows : rows);
    }
    _tile_loadconfig(&shapes);
  }

  static void release() {
    if (current() == 0) return;
    current() = 0;
    _tile_release();
  }

 private:
  static int64_t& current() {
    static thread_local int64_t rows = 0;
    return rows;
  }
};

// Ends a task's use of tiles: the system has none to save then when the thread is interrupted.
inline void release_tiles() { TileShapes::release(); }

// c [16 * blocks, 16] = a [16 * blocks, 32 * depth] times b [16 * depth words, 16]. The stride counts bytes. Loading a
// tile takes three times as long as multiplying two, so b's are kept, up to two.
inline void multiply_whole_tiles(const void* a, int64_t a_stride, const uint32_t* b, float* c, int64_t blocks,
                                 int64_t depth) {
  TileShapes::set_any();
  for (int64_t block = 0; block < blocks; ++block) {
    const char* const left = static_cast<const char*>(a) + block * kTileRows * a_stride;
    _tile_zero(6);
    for (int64_t step = 0; step < depth; step += 2) {
      const uint32_t* const right = b + step * kTileRows * kTileRows;
      if (block == 0 || depth > 2) _tile_loadd(4, right, kTileBytes);
      _tile_loadd(3, left + step * kTileBytes, a_stride);
      _tile_dpbf16ps(6, 3, 4);
      if (step + 1 == depth) break;
      if (block == 0 || depth > 2) _tile_loadd(5, right + kTileRows * kTileRows, kTileBytes);
      _tile_loadd(7, left + (step + 1) * kTileBytes, a_stride);
      _tile_dpbf16ps(6, 7, 5);
    }
    _tile_stored(6, c + block * kTileRows * kTileRows, kTileBytes);
  }
}

// c [rows, 16 * columns] += a [rows, 32 * depth] times b [16 * depth words, 16 * columns]. Strides count bytes. Every
// 32 numbers' products are added in one go.
inline void multiply_tiles(const BFloat16* a, int64_t a_stride, const uint32_t* b, int64_t b_stride, float* c,
                           int64_t c_stride, int64_t rows, int64_t depth, int64_t columns) {
  const int64_t passes = (rows + kTileRows - 1) / kTileRows;
  for (int64_t pass = 0, first = 0; pass < passes; ++pass) {
    const int64_t count = (rows - first) / (passes - pass);
    TileShapes::set(count);
    const char* const left = reinterpret_cast<const char*>(a) + first * a_stride;
    for (int64_t column = 0; column < columns; column += 2) {
      const bool two = columns - column > 1;
      char* const to = reinterpret_cast<char*>(c) + first * c_stride + column * kTileBytes;
      _tile_loadd(0, to, c_stride);
      if (two) _tile_loadd(1, to + kTileBytes, c_stride);
      for (int64_t step = 0; step < depth; ++step) {
        const char* const right = reinterpret_cast<const char*>(b) + step * kTileRows * b_stride + column * kTileBytes;
        _tile_loadd(2, left + step * kTileBytes, a_stride);
        _tile_loadd(3, right, b_stride);
        _tile_dpbf16ps(0, 2, 3);
        if (!two) continue;
        _tile_loadd(4, right + kTileBytes, b_stride);
        _tile_dpbf16ps(1, 2, 4);
      }
      _tile_stored(0, to, c_stride);
      if (two) _tile_stored(1, to + kTileBytes, c_stride);
    }
    first += count;
  }
}

#else

constexpr bool kHasTiles = false;

template <typename... Arguments>
void multiply_whole_tiles(const Arguments&...) {}
template <typename... Arguments>
void multiply_tiles(const Arguments&...) {}
inline void release_tiles() {}

#endif

}  // namespace specextend
