// GGUF's quantized blocks, a row's columns one after the other, as llama.cpp stores them.
//
// A block's reader gives a code for each number, and the facts of every 32 of them: scale and zero, or the scales of
// both halves, or one scale. Codes of four bits are 0 to 15, and a number is scale * (code - 8) + zero; of six and
// eight bits likewise with 32 and 128. Five bits become six. Products of the block's factors are exact in float32, so
// that only what is stored is rounded.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace specextend {

using Facts = float[2];

inline float half(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                     : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}

// Nibbles of 16 bytes: 32 numbers, the lower ones first; `Fifth`: with a word of their fifth bits before them.
template <bool Fifth, bool HasZero>
struct Simple {
  static constexpr int64_t kNumbers = 32, kBytes = 18 + (Fifth ? 4 : 0) + (HasZero ? 2 : 0);
  static constexpr int64_t kBits = Fifth ? 6 : 4, kFacts = 2;

  static void read(const uint8_t* block, uint8_t* codes, Facts* facts) {
    const float scale = half(block);
    facts[0][0] = scale;
    facts[0][1] = HasZero ? half(block + 2) + (Fifth ? 16 : 8) * scale : 0;
    const uint8_t* const nibbles = block + kBytes - 16;
    uint32_t fifth = 0;
    if (Fifth) std::memcpy(&fifth, nibbles - 4, sizeof fifth);
    for (int64_t i = 0; i < 16; ++i) {
      codes[i] = nibbles[i] & 15;
      codes[i + 16] = nibbles[i] >> 4;
    }
    if (!Fifth) return;
    for (int64_t i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] + (fifth >> i & 1) * 16 + 16);
  }
};

struct Q8_0 {
  static constexpr int64_t kNumbers = 32, kBytes = 34, kBits = 8, kFacts = 1;

  static void read(const uint8_t* block, uint8_t* codes, Facts* facts) {
    facts[0][0] = half(block);
    for (int64_t i = 0; i < 32; ++i) codes[i] = block[2 + i] ^ 128;
  }
};

// 256 numbers of four or five bits; every 32 have a scale and a minimum of six bits, whose factors follow each other.
template <bool Fifth>
struct Super {
  static constexpr int64_t kNumbers = 256, kBytes = Fifth ? 176 : 144, kBits = Fifth ? 6 : 4, kFacts = 2;

  static void read(const uint8_t* block, uint8_t* codes, Facts* facts) {
    const float d = half(block), least = half(block + 2);
    const uint8_t *const six = block + 4, *const fifth = block + 16, *const nibbles = block + kBytes - 128;
    for (int64_t group = 0; group < 8; ++group) {
      const int64_t i = group % 4;
      const int scale = group < 4 ? six[i] & 63 : (six[i + 8] & 15) | six[i] >> 6 << 4;
      const int minimum = group < 4 ? six[i + 4] & 63 : six[i + 8] >> 4 | six[i + 4] >> 6 << 4;
      facts[group][0] = d * static_cast<float>(scale);
      facts[group][1] = -least * static_cast<float>(minimum) + (Fifth ? 16 : 8) * facts[group][0];
      for (int64_t j = 0; j < 32; ++j) {
        const int nibble = nibbles[group / 2 * 32 + j] >> group % 2 * 4 & 15;
        codes[group * 32 + j] = static_cast<uint8_t>(Fifth ? nibble + (fifth[j] >> group & 1) * 16 + 16 : nibble);
      }
    }
  }
};

// 256 numbers of six bits; every sixteen have a scale of eight bits.
struct Q6_K {
  static constexpr int64_t kNumbers = 256, kBytes = 210, kBits = 6, kFacts = 2;

  static void read(const uint8_t* block, uint8_t* codes, Facts* facts) {
    const uint8_t *const lower = block, *const upper = block + 128, *const scales = block + 192;
    const float d = half(block + 208);
    for (int64_t part = 0; part < 16; ++part)
      facts[part / 2][part % 2] = d * static_cast<float>(static_cast<int8_t>(scales[part]));
    for (int64_t group = 0; group < 8; ++group)
      for (int64_t j = 0; j < 32; ++j) {
        const int64_t side = group / 4, quarter = group % 4;
        const int low = lower[side * 64 + quarter % 2 * 32 + j] >> quarter / 2 * 4 & 15;
        const int high = upper[side * 32 + j] >> quarter * 2 & 3;
        codes[group * 32 + j] = static_cast<uint8_t>(high << 4 | low);
      }
  }
};

}  // namespace specextend
