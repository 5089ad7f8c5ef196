// A prompt's rows times a matrix in bfloat16, or one of four to eight bits that is unpacked to it, by AMX.
//
// Sixteen rows of the matrix are brought into the form of a tile's right side once for all rows of a block, some
// columns at a time, so that they stay in the first-level cache. A row's result does not depend on the other rows.
#pragma once

#include <vector>

#include "int4_matmul.h"
#include "tiles.h"

namespace specextend {

#if defined(__AMX_BF16__) && defined(__AMX_INT8__)

class TiledRows {
 public:
  int64_t columns = 0;

  void prepare(const Rows& x, int64_t rows, int64_t count) {
    columns = count;
    tiles_ = (rows + kTileRows - 1) / kTileRows;
    numbers_.assign(tiles_ * kTileRows * columns, BFloat16{});
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < columns; i += kTile)
        Word<BFloat16>::store(&numbers_[at(row / kTileRows, i / kGroup) + row % kTileRows * kGroup + i % kGroup],
                              Word<float>::load(x.at(row, i)));
  }

  // Rows times the matrix's rows from `begin` to `end`, whole tiles, to the columns of `out` that have their numbers.
  void times(const SxMatrix& matrix, int64_t rows, int64_t begin, int64_t end, const Sums& out) const {
    TileShapes::set(kTileRows);
    for (int64_t column = begin; column < end; column += kTile)
      for (int64_t first = 0; first < tiles_; first += kMost) {
        const int64_t count = std::min(kMost, tiles_ - first), tile = column / kTile;
        if (matrix.kind == kBFloat16)
          multiply(first, count, Dense{static_cast<const BFloat16*>(matrix.weights) + column * columns, columns});
        else
          with_form(matrix.kind, [&]<typename Form>(Form) {
            const auto* codes = static_cast<const uint8_t*>(matrix.weights);
            const auto* scales = static_cast<const BFloat16*>(matrix.scales);
            multiply(first, count,
                     Packed<Form>{codes + tile * columns / kStep * 16 * Form::kBits,
                                  scales + tile * columns / kGroup * Form::kScales * kTile});
          });
        store(first, count, rows, column, out);
      }
  }

 private:
  static constexpr int64_t kMost = 6;    // tiles of rows whose sums are kept at a time
  static constexpr int64_t kGroups = 4;  // of columns that are unpacked at a time
  static constexpr int64_t kWords = kTileRows * kTileRows;
  int64_t tiles_ = 0;
  std::vector<BFloat16> numbers_;  // [tiles of rows, groups, 16, 32]

  int64_t at(int64_t tile, int64_t group) const { return (tile * (columns / kGroup) + group) * kTileRows * kGroup; }

  // Sixteen rows of a matrix by rows.
  struct Dense {
    const BFloat16* weights;
    int64_t columns;

    void unpack(int64_t group, uint32_t* to) const {
      Ints rows[kTileRows];
      for (int64_t row = 0; row < kTileRows; ++row) rows[row] = load_as<Ints>(weights + row * columns + group * kGroup);
      transpose(rows);
      std::memcpy(to, rows, sizeof rows);
    }
  };

  // A tile of four to eight bits. A permutation looks numbers up by the lowest four bits of each word.
  template <typename Form>
  struct Packed {
    const uint8_t* codes;
    const BFloat16* scales;

    void unpack(int64_t group, uint32_t* to) const {
      constexpr int64_t part = kGroup / Form::kParts;
      const BFloat16* const facts = scales + group * Form::kScales * kTile;
      const Floats zero = Form::kHasZero ? Word<BFloat16>::load(facts + kTile) : Floats{};
      for (int64_t i = 0; i < kGroup; i += kStep) {
        const Floats scale = Word<BFloat16>::load(facts + i / part * kTile);
        auto packed = Codes<Form::kBits>::at(codes, (group * kGroup + i) / kStep);
        const auto next = [&] { return (__m512)multiply_add(next_of(packed), scale, zero); };
#pragma GCC unroll 4
        for (int64_t j = 0; j < kStep; j += 2) {
          const __m512 low = next(), high = next();
          const __m512i beside = (__m512i)_mm512_cvtne2ps_pbh(high, low);
          _mm512_store_si512(to + (i + j) / 2 * kTileRows, _mm512_permutexvar_epi16(interleaved(), beside));
        }
      }
    }

    static Floats next_of(Codes<4>& codes) { return looked_up(codes, 1, -Form::kMiddle); }
    static Floats next_of(WideCodes& codes) {
      return looked_up(codes.upper, 16, -Form::kMiddle) + looked_up(codes.lower, 1, 0);
    }

    // The first column's codes, which are removed, times `step`, plus `first`.
    static Floats looked_up(Codes<4>& codes, int32_t step, int32_t first) {
      const Ints table = counted(std::make_index_sequence<kLanes>()) * step + first, looked = codes.packed;
      codes.packed = bits_of<Ints>(bits_of<Words>(looked) >> 4);
      return (Floats)_mm512_permutexvar_ps((__m512i)looked, (__m512) __builtin_convertvector(table, Floats));
    }

    // The halves of a vector of 32 numbers, in turns.
    static __m512i interleaved() {
      const Ints lanes = counted(std::make_index_sequence<kLanes>());
      return (__m512i)(lanes | (lanes + 16) << 16);
    }
  };

  template <typename Right>
  void multiply(int64_t first, int64_t count, const Right& right) const {
    alignas(64) uint32_t words[kGroups * kWords];
    switch (count) {
      case 6:
        _tile_zero(5);
        [[fallthrough]];
      case 5:
        _tile_zero(4);
        [[fallthrough]];
      case 4:
        _tile_zero(3);
        [[fallthrough]];
      case 3:
        _tile_zero(2);
        [[fallthrough]];
      case 2:
        _tile_zero(1);
        [[fallthrough]];
      default:
        _tile_zero(0);
    }
    const int64_t groups = columns / kGroup;
    for (int64_t begin = 0; begin < groups; begin += kGroups) {
      const int64_t end = std::min(begin + kGroups, groups);
      for (int64_t group = begin; group < end; ++group) right.unpack(group, words + (group - begin) * kWords);
      for (int64_t group = begin; group < end; ++group) {
        _tile_loadd(7, words + (group - begin) * kWords, kTileBytes);
        const BFloat16* const left = &numbers_[at(first, group)];
        const int64_t tile = at(1, 0);
        switch (count) {
          case 6:
            _tile_loadd(6, left + 5 * tile, kTileBytes);
            _tile_dpbf16ps(5, 6, 7);
            [[fallthrough]];
          case 5:
            _tile_loadd(6, left + 4 * tile, kTileBytes);
            _tile_dpbf16ps(4, 6, 7);
            [[fallthrough]];
          case 4:
            _tile_loadd(6, left + 3 * tile, kTileBytes);
            _tile_dpbf16ps(3, 6, 7);
            [[fallthrough]];
          case 3:
            _tile_loadd(6, left + 2 * tile, kTileBytes);
            _tile_dpbf16ps(2, 6, 7);
            [[fallthrough]];
          case 2:
            _tile_loadd(6, left + tile, kTileBytes);
            _tile_dpbf16ps(1, 6, 7);
            [[fallthrough]];
          default:
            _tile_loadd(6, left, kTileBytes);
            _tile_dpbf16ps(0, 6, 7);
        }
      }
    }
  }

  void store(int64_t first, int64_t count, int64_t rows, int64_t column, const Sums& out) const {
    alignas(64) float sums[kMost * kWords];
    switch (count) {
      case 6:
        _tile_stored(5, sums + 5 * kWords, kTileBytes);
        [[fallthrough]];
      case 5:
        _tile_stored(4, sums + 4 * kWords, kTileBytes);
        [[fallthrough]];
      case 4:
        _tile_stored(3, sums + 3 * kWords, kTileBytes);
        [[fallthrough]];
      case 3:
        _tile_stored(2, sums + 2 * kWords, kTileBytes);
        [[fallthrough]];
      case 2:
        _tile_stored(1, sums + kWords, kTileBytes);
        [[fallthrough]];
      default:
        _tile_stored(0, sums, kTileBytes);
    }
    const int64_t last = std::min(count * kTileRows, rows - first * kTileRows);
    for (int64_t row = 0; row < last; ++row)
      std::copy_n(sums + row * kTileRows, kTile, out.at(first * kTileRows + row, column));
  }
};

#else

// There is none.
struct TiledRows {
  void prepare(const Rows&, int64_t, int64_t) {}
  void times(const SxMatrix&, int64_t, int64_t, int64_t, const Sums&) const {}
};

#endif

}  // namespace specextend
