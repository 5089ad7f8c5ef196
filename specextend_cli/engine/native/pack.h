// Quantized blocks as tiles of sixteen rows (`int4_matmul.h`), and tiles as numbers.
#pragma once

#include <atomic>
#include <vector>

#include "blocks.h"
#include "int4_matmul.h"
#include "pool.h"

namespace specextend {

// The lower four bits of eight bytes, the first ones lowest.
inline uint32_t nibbles(uint64_t eight) {
  eight &= 0x0f0f0f0f0f0f0f0f;
  eight = (eight | eight >> 4) & 0x00ff00ff00ff00ff;
  eight = (eight | eight >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(eight | eight >> 16);
}

// Sixteen rows of blocks as a tile. Whether all scales and zeros are finite.
template <typename Block>
bool pack_tile(const uint8_t* blocks, int64_t columns, uint8_t* codes, BFloat16* scales) {
  constexpr int64_t bytes = 16 * Block::kBits, groups = Block::kNumbers / kGroup;
  const int64_t row_bytes = columns / Block::kNumbers * Block::kBytes;
  Floats sum = {};
  for (int64_t block = 0; block < columns / Block::kNumbers; ++block) {
    uint32_t words[Block::kNumbers * Block::kBits / 32][kTile] = {};
    float facts[groups][2][kTile] = {};
    for (int64_t row = 0; row < kTile; ++row) {
      uint8_t own[Block::kNumbers];
      Facts of_row[groups];
      Block::read(blocks + row * row_bytes + block * Block::kBytes, own, of_row);
      for (int64_t group = 0; group < groups; ++group)
        for (int64_t i = 0; i < Block::kFacts; ++i) facts[group][i][row] = of_row[group][i];
      for (int64_t step = 0; step < Block::kNumbers / kStep; ++step) {
        uint64_t eight;
        std::memcpy(&eight, own + step * kStep, sizeof eight);
        const uint32_t lower = nibbles(eight), upper = nibbles(eight >> 4);
        if constexpr (Block::kBits == 4) {
          words[step][row] = lower;
        } else if constexpr (Block::kBits == 6) {
          words[step / 2 * 3 + step % 2][row] = lower;
          words[step / 2 * 3 + 2][row] |= ((upper & 0x03030303) | (upper & 0x30303030) >> 2) << step % 2 * 4;
        } else {
          words[2 * step][row] = upper;
          words[2 * step + 1][row] = lower;
        }
      }
    }
    std::memcpy(codes + block * Block::kNumbers / kStep * bytes, words, sizeof words);
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t i = 0; i < Block::kFacts; ++i)
        for (int64_t lane = 0; lane < kTile; lane += kLanes) {
          const Floats some = Word<float>::load(facts[group][i] + lane);
          Word<BFloat16>::store(scales + ((block * groups + group) * Block::kFacts + i) * kTile + lane, some);
          sum += some - some;  // NaN where one is not finite
        }
  }
  return sum_of(sum) == 0;
}

template <typename Block>
bool pack_blocks(const uint8_t* blocks, int64_t rows, int64_t columns, uint8_t* codes, BFloat16* scales) {
  const int64_t tile_bytes = kTile * columns / Block::kNumbers * Block::kBytes;
  std::atomic<bool> is_finite = true;
  in_parts(rows / kTile, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile)
      if (!pack_tile<Block>(blocks + tile * tile_bytes, columns, codes + tile * columns / kStep * 16 * Block::kBits,
                            scales + tile * columns / kGroup * Block::kFacts * kTile))
        is_finite = false;
  });
  return is_finite;
}

// The weights of a tile, row by row, to out [16, columns].
template <typename Form, typename T>
void unpack_tile(const uint8_t* codes, const BFloat16* scales, int64_t columns, T* out) {
  constexpr int64_t part = kGroup / Form::kParts;
  for (int64_t strip = 0; strip < kTile; strip += kLanes)
    for (int64_t group = 0; group < columns / kGroup; ++group) {
      const BFloat16* const facts = scales + group * Form::kScales * kTile + strip;
      const Floats zero = Form::kHasZero ? Word<BFloat16>::load(facts + kTile) : Floats{};
      Ints weights[kGroup];  // of a column each
      for (int64_t i = 0; i < kGroup; i += kStep) {
        const Floats scale = Word<BFloat16>::load(facts + i / part * kTile);
        auto packed = Codes<Form::kBits>::at(codes + strip * 4, (group * kGroup + i) / kStep);
#pragma GCC unroll 8
        for (int64_t j = 0; j < kStep; ++j) {
          const Floats number = __builtin_convertvector(packed.next() - Form::kMiddle, Floats);
          weights[i + j] = bits_of<Ints>(multiply_add(number, scale, zero));
        }
      }
      for (int64_t first = 0; first < kGroup; first += kLanes) {
        transpose(weights + first);
        for (int64_t row = 0; row < kLanes; ++row)
          Word<T>::store(out + (strip + row) * columns + group * kGroup + first, bits_of<Floats>(weights[first + row]));
      }
    }
}

// Calls work(unpack) with unpack(tile, out) of a matrix of four to eight bits.
template <typename T, typename Work>
void with_tiles(const SxMatrix& matrix, const Work& work) {
  with_form(matrix.kind, [&]<typename Form>(Form) {
    const int64_t codes = matrix.columns / kStep * 16 * Form::kBits;
    const int64_t scales = matrix.columns / kGroup * Form::kScales * kTile;
    work([&](int64_t tile, T* out) {
      unpack_tile<Form>(static_cast<const uint8_t*>(matrix.weights) + tile * codes,
                        static_cast<const BFloat16*>(matrix.scales) + tile * scales, matrix.columns, out);
    });
  });
}

template <typename T>
void unpack(const SxMatrix& matrix, T* out) {
  with_tiles<T>(matrix, [&](const auto& unpack_one) {
    in_parts(matrix.rows / kTile, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) unpack_one(tile, out + tile * kTile * matrix.columns);
    });
  });
}

// A row, by the tile that it is in: the other fifteen cost less than a second way to read codes.
template <typename T>
void unpack_row(const SxMatrix& matrix, int64_t row, T* out) {
  static thread_local std::vector<T> tile;
  tile.resize(kTile * matrix.columns);
  with_tiles<T>(matrix, [&](const auto& unpack_one) { unpack_one(row / kTile, tile.data()); });
  std::copy_n(&tile[row % kTile * matrix.columns], matrix.columns, out);
}

}  // namespace specextend
