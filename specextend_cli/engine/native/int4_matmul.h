// A few rows times a matrix of four, six or eight bits per weight.
//
// A token's product is bound by reading the matrix, a tree's by arithmetic. Codes are therefore read once, in memory
// order, and used with as little conversion as possible. For a model in float32 rows are multiplied as they are. For
// one in bfloat16 they are rounded to eight bits with a scale per group of columns, as in llama.cpp: codes are then
// factors as stored, and an instruction does 64 products instead of 32. The matrix's scales are applied to the sums of
// a group, in float32. A row's result does not depend on the number of other rows: a token in a tree has the products
// of a single token.
//
// A matrix lies in tiles of sixteen rows. codes [rows / 16, columns / 8, 64] uint8: eight columns of each row of a
// tile; a word holds eight columns of a row, the even ones in the lower halves of its bytes. scales [rows / 16, columns
// / 32, 2, 16] bfloat16: scale, zero. A weight is scale * (code - 8) + zero. Of eight bits, codes [rows / 16, columns /
// 8, 2, 64] are 64 bytes of upper halves and 64 of lower ones: scale * (16 * upper + lower - 128). Of six bits, codes
// [rows / 16, columns / 16, 3, 64] are two times 64 bytes of lower halves, of eight columns each, and 64 of upper bits:
// a byte has those of two columns of the first eight, and above them of two of the others: scale * (16 * upper + lower
// - 32). Their scales [rows / 16, columns / 32, 2, 16] are those of a group's halves, or scale and zero.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "rows.h"
#include "simd.h"
#include "specextend.h"

namespace specextend {

constexpr int64_t kGroup = 32;                             // columns whose scales, or scale and zero, are together
constexpr int64_t kStep = 8;                               // columns whose codes, for sixteen rows, are 64 bytes
constexpr int64_t kPrefetch = 4096;                        // distance in bytes at which codes and scales are prefetched
constexpr int64_t kStrip = kLanes;                         // rows of a tile that are computed together
constexpr int64_t kMostRows = kRegisters == 32 ? 12 : 10;  // whose sums of a group fit the registers

// Bits of a code, parts of a group with scales of their own, whether it has a zero, and its middle.
template <int Bits, int Parts, bool HasZero>
struct Form {
  static constexpr int kBits = Bits, kParts = Parts, kScales = HasZero ? 2 : Parts;
  static constexpr bool kHasZero = HasZero;
  static constexpr int32_t kMiddle = 1 << (Bits - 1);
};

// Calls work with the form of a kind of SxMatrix.
template <typename Work>
auto with_form(int64_t kind, const Work& work) {
  return kind == kFourBit      ? work(Form<4, 1, true>{})
         : kind == kSixBit     ? work(Form<6, 2, false>{})
         : kind == kSixBitZero ? work(Form<6, 1, true>{})
                               : work(Form<8, 1, false>{});
}

// Eight columns of a strip's rows: those of a step, from the codes of its tile on.
template <int Bits>
struct Codes;

template <>
struct Codes<4> {
  Ints packed;

  static Codes at(const uint8_t* tile, int64_t step) { return {load_as<Ints>(tile + step * 64)}; }

  // A byte for each column: the even ones, the odd ones.
  Ints even() const { return packed & 0x0f0f0f0f; }
  Ints odd() const { return bits_of<Ints>(bits_of<Words>(packed) >> 4) & 0x0f0f0f0f; }

  // The first column's codes, which are removed.
  Ints next() {
    const Ints first = packed & 15;
    packed = bits_of<Ints>(bits_of<Words>(packed) >> 4);
    return first;
  }
};

// Upper and lower parts.
struct WideCodes {
  Codes<4> upper, lower;

  Ints even() const { return upper.even() << 4 | lower.even(); }
  Ints odd() const { return (upper.packed & static_cast<int32_t>(0xf0f0f0f0)) | lower.odd(); }
  Ints next() { return upper.next() << 4 | lower.next(); }
};

template <>
struct Codes<6> : WideCodes {
  Words both;  // upper bits of two steps
  bool is_second;

  static Codes at(const uint8_t* tile, int64_t step) {
    const Codes<4> lower = Codes<4>::at(tile, step / 2 * 3 + step % 2);
    const Words both = load_as<Words>(tile + (step / 2 * 3 + 2) * 64), own = step % 2 ? both >> 4 : both;
    return {{{bits_of<Ints>((own & 0x03030303) | (own & 0x0c0c0c0c) << 2)}, lower}, both, step % 2 == 1};
  }

  Ints even() const { return bits_of<Ints>((is_second ? both : both << 4) & 0x30303030) | lower.even(); }
  Ints odd() const { return bits_of<Ints>((is_second ? both >> 2 : both << 2) & 0x30303030) | lower.odd(); }
};

template <>
struct Codes<8> : WideCodes {
  static Codes at(const uint8_t* tile, int64_t step) {
    return {{Codes<4>::at(tile, 2 * step), Codes<4>::at(tile, 2 * step + 1)}};
  }
};

// Rows in float32, and the sums of their groups.
class Exact {
 public:
  using Sum = Floats;
  int64_t columns = 0;

  void prepare(const Rows& x, int64_t rows, int64_t count) {
    columns = count;
    numbers_.resize(rows * columns);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < columns; i += kTile) std::copy_n(x.at(row, i), kTile, &numbers_[row * columns + i]);
    sums_.assign(rows * columns / kGroup, 0);
    for (std::size_t group = 0; group < sums_.size(); ++group) {
      float parts[kStep] = {};
      for (int64_t i = 0; i < kGroup; ++i) parts[i % kStep] += numbers_[group * kGroup + i];
      for (float part : parts) sums_[group] += part;
    }
  }

  // Adds eight columns.
  template <int Bits, int Count, int Strips>
  void add(Sum (&sums)[Strips][Count], Codes<Bits> (&codes)[Strips], int64_t first, int64_t step) const {
    constexpr int32_t middle = 1 << (Bits - 1);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kStep; ++i) {
#pragma GCC unroll 4
      for (int s = 0; s < Strips; ++s) {
        const Floats weights = __builtin_convertvector(codes[s].next() - middle, Floats);
#pragma GCC unroll 12
        for (int row = 0; row < Count; ++row)
          sums[s][row] =
              multiply_add(weights, every(numbers_[(first + row) * columns + step * kStep + i]), sums[s][row]);
      }
    }
  }

  template <typename Form>
  static Floats zero(Floats, Floats zero) {
    return zero;
  }

  // Adds the part'th of a group's parts.
  template <typename Form, int>
  Floats scaled(Floats total, Sum sum, int64_t first, int64_t row, int64_t group, int64_t, Floats scale,
                Floats zero) const {
    if constexpr (Form::kHasZero)
      total = multiply_add(zero, every(sums_[(first + row) * (columns / kGroup) + group]), total);
    return multiply_add(sum, scale, total);
  }

 private:
  std::vector<float> numbers_, sums_;
};

static_assert(kGroup / 2 * 15 * 127 <= 0x7fff);  // `add_small_products` of a group, in each half of a lane

// Calls work(first, count) for parts of the rows, those that are multiplied together.
template <typename Work>
void in_passes(int64_t rows, const Work& work) {
  const int64_t passes = (rows + kMostRows - 1) / kMostRows;
  for (int64_t pass = 0, first = 0; pass < passes; ++pass) {
    const int64_t count = (rows - first) / (passes - pass);
    work(first, count);
    first += count;
  }
}

// Rows as -127 to 127 times a scale for each group. Rows that are multiplied together lie beside each other.
class Rounded {
 public:
  using Sum = Ints;
  int64_t columns = 0;

  void prepare(const Rows& x, int64_t rows, int64_t count) {
    columns = count;
    numbers_.resize(rows * columns);
    facts_.resize(rows * columns / kGroup);
    in_passes(rows, [&](int64_t first, int64_t count) {
      for (int64_t row = 0; row < count; ++row)
        for (int64_t i = 0; i < columns; i += kGroup) {
          const int64_t group = first * (columns / kGroup) + i / kGroup * count + row;
          int8_t* const to = &numbers_[first * columns + i * count + row * kStep];
          facts_[group] = round(x.at(first + row, i), x.at(first + row, i + kTile), to, count * kStep);
        }
    });
  }

  template <int Bits, int Count, int Strips>
  void add(Sum (&sums)[Strips][Count], Codes<Bits> (&codes)[Strips], int64_t first, int64_t step) const {
#pragma GCC unroll 4
    for (int s = 0; s < Strips; ++s) {
      const Ints even = codes[s].even(), odd = codes[s].odd();
#pragma GCC unroll 12
      for (int row = 0; row < Count; ++row) {
        const int8_t* of_row = numbers_.data() + first * columns + (step * Count + row) * kStep;
        const Ints of_even = word(of_row), of_odd = word(of_row + kStep / 2);
        sums[s][row] = Bits == 4   ? add_small_products(sums[s][row], even, of_even, odd, of_odd)
                       : Bits == 6 ? add_products(sums[s][row], even, of_even, odd, of_odd)
                                   : add_byte_products(sums[s][row], even, of_even, odd, of_odd);
      }
    }
  }

  // Codes were taken for whole numbers from 0 on.
  template <typename Form>
  static Floats zero(Floats scale, Floats zero) {
    return multiply_add(every(static_cast<float>(-Form::kMiddle)), scale, zero);
  }

  // Adds the part'th of a group's parts.
  template <typename Form, int Count>
  Floats scaled(Floats total, Sum sum, int64_t first, int64_t row, int64_t group, int64_t part, Floats scale,
                Floats zero) const {
    const auto& facts = facts_[first * (columns / kGroup) + group * Count + row];
    total = multiply_add(zero, every(facts[Form::kParts + part]), total);
    if (Form::kBits == 4) sum = whole_sums(sum);
    return multiply_add(__builtin_convertvector(sum, Floats), scale * facts[0], total);
  }

 private:
  std::vector<int8_t> numbers_;              // [columns / 8, rows, 8] of a pass; of eight columns the even ones first
  std::vector<std::array<float, 4>> facts_;  // [columns / 32, rows]: a group's scale, its sum, the sums of its halves

  static Ints word(const int8_t* from) { return every(load_as<int32_t>(from)); }

  // A group's numbers, which are those of two tiles, go to `to`, eight by eight, `apart`; its scale and sums.
  static std::array<float, 4> round(const float* first, const float* second, int8_t* to, int64_t apart) {
    const auto x = [&](int64_t i) { return i < kTile ? first + i : second + (i - kTile); };
    // Sizes compare as their bits do, and NaN is the largest: it stays, in the scale.
    Ints largest = {};
    for (int64_t i = 0; i < kGroup; i += kLanes) largest = maximum(largest, load_as<Ints>(x(i)) & 0x7fffffff);
    const float most = bits_of<float>(largest_of(largest)), by = most > 0 ? 127 / most : 0;
    Ints near[kGroup / kLanes];
    for (int64_t i = 0; i < kGroup / kLanes; ++i)
      near[i] = bits_of<Ints>(Word<float>::load(x(i * kLanes)) * by + 12582912.f) - 0x4b400000;
    Ints left = {}, right = {};
    for (int64_t i = 0; i < kGroup / kLanes / 2; ++i) {
      left += near[i];
      right += near[kGroup / kLanes / 2 + i];
    }
    const int32_t of_left = sum_of(left), of_right = sum_of(right);
    const auto sum = [&](int32_t some) { return most / 127 * static_cast<float>(some); };
#if defined(__AVX512F__)
    const __m128i even_first = _mm_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0);
    for (int64_t i = 0; i < kGroup / kLanes; ++i) {
      const __m128i bytes = _mm_shuffle_epi8(_mm512_cvtepi32_epi8((__m512i)near[i]), even_first);
      std::memcpy(to + 2 * i * apart, &bytes, kStep);
      std::memcpy(to + (2 * i + 1) * apart, reinterpret_cast<const int8_t*>(&bytes) + kStep, kStep);
    }
#else
    int32_t whole[kGroup];
    std::memcpy(whole, near, sizeof whole);
    for (int64_t i = 0; i < kGroup / kStep; ++i)
      for (int64_t j = 0; j < kStep; ++j) to[i * apart + j] = static_cast<int8_t>(whole[i * kStep + j % 4 * 2 + j / 4]);
#endif
    return {most / 127, sum(of_left + of_right), sum(of_left), sum(of_right)};
  }
};

// `Count` rows from `first` on times `Strips` neighbouring strips; with few rows, several strips hide the latency of
// dependent sums.
template <typename Prepared, typename Form, int Count, int Strips>
void multiply(const Prepared& x, int64_t first, const uint8_t* codes, const BFloat16* scales, int64_t strip,
              const Sums& out) {
  constexpr int Bits = Form::kBits, Parts = Form::kParts;
  constexpr int64_t each = kTile / kStrip;  // strips of a tile
  constexpr int64_t bytes = 16 * Bits;      // of a step
  constexpr int64_t scales_of_group = Form::kScales;
  const int64_t tile_codes = x.columns / kStep * bytes, tile_scales = x.columns / kGroup * scales_of_group * kTile;
  const uint8_t* from[Strips];
  const BFloat16* scaled_by[Strips];
  for (int s = 0; s < Strips; ++s) {
    from[s] = codes + (strip + s) / each * tile_codes + (strip + s) % each * kStrip * 4;
    scaled_by[s] = scales + (strip + s) / each * tile_scales + (strip + s) % each * kStrip;
  }
  const int64_t farther = kPrefetch + (Strips / each > 1 ? (Strips / each - 1) * tile_codes : 0);
  Floats total[Strips][Count];
  for (auto& of_strip : total)
    for (auto& sum : of_strip) sum = Floats{};
  constexpr int64_t steps = kGroup / kStep / Parts;  // of a part
  for (int64_t i = 0; i < x.columns / kGroup * Parts; ++i) {
    const int64_t group = i / Parts, part = i % Parts;
    typename Prepared::Sum added[Strips][Count];
    for (auto& of_strip : added)
      for (auto& sum : of_strip) sum = typename Prepared::Sum{};
#pragma GCC unroll 4
    for (int64_t own = 0; own < steps; ++own) {
      const int64_t step = i * steps + own;
      Codes<Bits> packed[Strips];
#pragma GCC unroll 4
      for (int s = 0; s < Strips; ++s) {
        const uint8_t* const at = from[s] + step * bytes;
        packed[s] = Codes<Bits>::at(from[s], step);
        for (int64_t line = 0; line < bytes; line += 64)
          __builtin_prefetch(at + line + (step * bytes + kPrefetch < tile_codes ? kPrefetch : farther), 0, 2);
      }
      x.template add<Bits, Count, Strips>(added, packed, first, step);
    }
#pragma GCC unroll 4
    for (int s = 0; s < Strips; ++s) {
      const BFloat16* of_group = scaled_by[s] + group * scales_of_group * kTile;
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(of_group) + kPrefetch, 0, 2);
      const Floats scale = Word<BFloat16>::load(of_group + part * kTile);
      const Floats own_zero = Form::kHasZero ? Word<BFloat16>::load(of_group + kTile) : Floats{};
      const Floats zero = Prepared::template zero<Form>(scale, own_zero);
#pragma GCC unroll 12
      for (int row = 0; row < Count; ++row)
        total[s][row] =
            x.template scaled<Form, Count>(total[s][row], added[s][row], first, row, group, part, scale, zero);
    }
  }
  for (int s = 0; s < Strips; ++s)
    for (int row = 0; row < Count; ++row) Word<float>::store(out.at(first + row, (strip + s) * kStrip), total[s][row]);
}

// Rows times the tiles from `begin` to `end`, to the columns of `out` that have their numbers.
template <typename Form, typename Prepared>
void times_tiles(const Prepared& x, int64_t rows, const uint8_t* codes, const BFloat16* scales, int64_t begin,
                 int64_t end, const Sums& out) {
  using Times = void (*)(const Prepared&, int64_t, const uint8_t*, const BFloat16*, int64_t, int64_t, const Sums&);
  static constexpr auto by_count = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Times, sizeof...(I)>{[](const Prepared& x, int64_t first, const uint8_t* codes,
                                              const BFloat16* scales, int64_t strip, int64_t last, const Sums& out) {
      constexpr int strips = I < (kRegisters == 32 ? 6 : 2) ? 2 : 1;
      for (; strip + strips <= last; strip += strips)
        multiply<Prepared, Form, I + 1, strips>(x, first, codes, scales, strip, out);
      for (; strip < last; ++strip) multiply<Prepared, Form, I + 1, 1>(x, first, codes, scales, strip, out);
    }...};
  }(std::make_index_sequence<kMostRows>());
  in_passes(rows, [&](int64_t first, int64_t count) {
    by_count[count - 1](x, first, codes, scales, begin * kTile / kStrip, end * kTile / kStrip, out);
  });
}

}  // namespace specextend
