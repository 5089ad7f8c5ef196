// Flash decoding: reads keys and values once for all queries that share them.
//
// A block of keys stays in the L1 cache. Its keys are transposed, so that a register holds sixteen of them, and
// multiplied with all rows; after an online softmax so are its values. Sums are float32.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "simd.h"

namespace specextend {

constexpr int64_t kBlock = 64;  // keys
constexpr int64_t kRows = 6;    // multiplied at a time: their sums fit the registers
constexpr float kNegInf = -std::numeric_limits<float>::infinity();
constexpr float kSlack = 8;  // by which scores may exceed the subtracted maximum: e^8 does not overflow

// e^x for x <= `kSlack`, to a few parts in a million; NaN stays NaN.
inline __m512 exponential(__m512 x) {
  const __m512 scaled = _mm512_mul_ps(_mm512_max_ps(_mm512_set1_ps(-87), x), _mm512_set1_ps(1.44269504f));
  const __m512 whole = _mm512_roundscale_ps(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(scaled, whole);
  __m512 sum = _mm512_set1_ps(1.54035304e-4f);  // Taylor series of 2^rest
  for (float term : {1.33335581e-3f, 9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.f})
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(term));
  return _mm512_scalef_ps(sum, whole);
}

// Transposes 16 rows of 16 words.
inline void transpose(__m512i rows[kLanes]) {
  __m512i half[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    half[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
    half[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
    half[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
    half[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0xdd);
    rows[i + 4] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0xdd);
  }
}

// Indices that interleave sixteen numbers of two rows, from `first` on.
constexpr std::array<uint16_t, 32> alternating(int first) {
  std::array<uint16_t, 32> order = {};
  for (int i = 0; i < 32; ++i) order[i] = static_cast<uint16_t>(first + i / 2 + i % 2 * 32);
  return order;
}

alignas(64) constexpr std::array<uint16_t, 32> kOrder[2] = {alternating(0), alternating(16)};

// Interleaves two rows of 32 numbers of 16 bits into 32 lanes of pairs, in two registers.
inline void interleave(__m512i even, __m512i odd, __m512i pairs[2]) {
  pairs[0] = _mm512_permutex2var_epi16(even, _mm512_load_si512(&kOrder[0]), odd);
  pairs[1] = _mm512_permutex2var_epi16(even, _mm512_load_si512(&kOrder[1]), odd);
}

// Some keys and values of one head.
template <typename T>
struct Span {
  const T *keys, *values;
  int64_t key_stride, value_stride, count;
};

// Prefetches the next block of keys and values, a few rows at a time, while the present one is computed. The pace suits
// a token's rows of 64 numbers in bfloat16; with more or wider rows, prefetching ends sooner. Prefetching past the end
// of the memory is harmless.
template <typename T>
class Prefetcher {
 public:
  Prefetcher() = default;
  Prefetcher(const Span<T>& now, int64_t dim)
      : keys_(now.keys + kBlock * now.key_stride),
        values_(now.values + kBlock * now.value_stride),
        key_stride_(now.key_stride),
        value_stride_(now.value_stride),
        dim_(dim),
        left_(2 * kBlock) {}

  void ask(int64_t rows) {
    for (; rows > 0 && left_ > 0; --rows, --left_) {
      const T* row = left_ > kBlock ? keys_ : values_;
      for (int64_t at = 0; at < dim_; at += kLine) _mm_prefetch(row + at, _MM_HINT_T1);
      (left_ > kBlock ? keys_ : values_) += left_ > kBlock ? key_stride_ : value_stride_;
    }
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(T);

  const T *keys_ = nullptr, *values_ = nullptr;
  int64_t key_stride_ = 0, value_stride_ = 0, dim_ = 0, left_ = 0;
};

// The softmax of one head's rows over one part of the keys. While a row's `top` is `kNegInf`, the rest is not set.
struct PartialSoftmax {
  float* out;    // [rows, dim], unnormalized
  float* top;    // [rows], the largest score, less at most `kSlack`
  float* total;  // [rows, lanes], of exp(score - top)

  static int64_t size(int64_t rows, int64_t dim) { return rows * (dim + 1 + kLanes); }

  static PartialSoftmax at(float* space, int64_t rows, int64_t dim) {
    return {space, space + rows * dim, space + rows * (dim + 1)};
  }

  __m512 total_of(int64_t row) const { return _mm512_loadu_ps(total + row * kLanes); }
};

// The own keys that each node sees, its ancestors' and its own, in order.
class Paths {
 public:
  int64_t longest = 0;

  // From a mask [nodes, own] that is added to scores.
  Paths(const float* mask, int64_t nodes, int64_t own) : starts_{0} {
    for (int64_t node = 0; node < nodes; ++node) {
      for (int64_t key = 0; key < own; ++key)
        if (mask[node * own + key] != kNegInf) keys_.push_back(key);
      longest = std::max(longest, static_cast<int64_t>(keys_.size()) - starts_.back());
      starts_.push_back(static_cast<int64_t>(keys_.size()));
    }
  }

  struct Some {
    const int64_t* keys;
    int64_t count;
  };

  int64_t nodes() const { return static_cast<int64_t>(starts_.size()) - 1; }

  // At most `room` keys of a node, from its `first` on.
  Some of(int64_t node, int64_t first, int64_t room) const {
    const int64_t from = starts_[node] + first;
    return {keys_.data() + from, std::clamp<int64_t>(starts_[node + 1] - from, 0, room)};
  }

 private:
  std::vector<int64_t> keys_, starts_;
};

// Attention of all rows of a head over blocks of keys and values.
template <typename T>
class Reader {
 public:
  Reader(int64_t rows, int64_t dim, int64_t own)
      : rows_(rows),
        dim_(dim),
        own_(own + kBlock - own % kBlock),
        keys_(dim / kNumbers * kBlock),
        values_(kBlock / kNumbers * dim),
        scores_(rows * kBlock),
        own_scores_(rows * own_),
        shares_(rows * kBlock) {}

  // The head's queries [rows, dim].
  void ask(const T* q) { q_ = reinterpret_cast<const uint32_t*>(q); }

  // The following blocks are added to `part`.
  void gather_in(const PartialSoftmax& part) { part_ = part; }

  void clear() const { std::fill_n(part_.top, rows_, kNegInf); }

  // At most a block of keys.
  void see(const Span<T>& span, float scale) {
    see_first(span, scale, [&](int64_t) { return span.count; });
  }

  // The same, where a row sees no more than the first `visible(row)` keys.
  template <typename Visible>
  void see_first(const Span<T>& span, float scale, const Visible& visible) {
    prefetcher_ = Prefetcher<T>(span, dim_);
    read_keys(span);
    read_values(span);
    each_few([&](auto count, int64_t row) { score<count()>(row, span.count, scores_.data(), kBlock); });
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t count = std::clamp<int64_t>(visible(row), 0, span.count);  // none, above the diagonal
      if (count == kBlock) {
        weigh_block(row, scale);
        continue;
      }
      if (count > 0) weigh(row, count, scale, nullptr);
      const int64_t weighed = (count + kLanes - 1) / kLanes * kLanes;
      std::fill(&shares_[row * kBlock] + weighed, &shares_[row * kBlock] + kBlock, T(0));
    }
    each_few([&](auto count, int64_t row) { gather<count()>(row, span.count); });
  }

  // The end of a sequence: the cached keys of a block that is not full, `last`, and after them each node's own, in this
  // block and further ones. `tree` [nodes, own] is added to the scores of own keys; the i-th block is added to
  // `part_of(i)`.
  template <typename PartOf>
  void see_end(const Span<T>& last, const Span<T>& own, const Paths& paths, const float* tree, float scale,
               const PartOf& part_of) {
    for (int64_t first = 0; first < own.count; first += kBlock) {
      const int64_t count = std::min(kBlock, own.count - first);
      read_keys({own.keys + first * own.key_stride, own.values, own.key_stride, own.value_stride, count});
      each_few([&](auto rows, int64_t row) { score<rows()>(row, count, own_scores_.data() + first, own_); });
    }
    read_keys(last);
    read_values(last);
    each_few([&](auto rows, int64_t row) { score<rows()>(row, last.count, scores_.data(), kBlock); });
    int64_t cached = last.count;  // lanes of the present block
    for (int64_t block = 0, seen = 0; block == 0 || seen < paths.longest; ++block) {
      gather_in(part_of(block));
      const int64_t room = kBlock - cached, whole = cached - cached % kNumbers;
      for (int64_t row = 0; row < rows_; ++row) {
        const int64_t node = row % paths.nodes();
        const Paths::Some path = paths.of(node, seen, room);
        float added[kBlock] = {};
        for (int64_t i = 0; i < path.count; ++i) {
          scores_[row * kBlock + cached + i] = own_scores_[row * own_ + path.keys[i]];
          added[cached + i] = tree[node * own.count + path.keys[i]];
        }
        if (cached + path.count > 0) weigh(row, cached + path.count, scale, added);
      }
      if (whole > 0) each_few([&](auto rows, int64_t row) { gather<rows()>(row, whole); });
      for (int64_t row = 0; row < rows_; ++row)
        gather_own(row, whole, cached, last, own, paths.of(row % paths.nodes(), seen, room));
      seen += room;
      cached = 0;
    }
  }

 private:
  static constexpr int64_t kNumbers = Word<T>::numbers;

  int64_t rows_, dim_, own_;
  const uint32_t* q_ = nullptr;
  PartialSoftmax part_ = {};
  Prefetcher<T> prefetcher_;
  std::vector<uint32_t> keys_;     // [dim / numbers, block]
  std::vector<uint32_t> values_;   // [block / numbers, dim]
  std::vector<float> scores_;      // [rows, block]
  std::vector<float> own_scores_;  // [rows, own]
  std::vector<T> shares_;          // [rows, block]

  template <typename Work>
  void each_few(const Work& work) {
    int64_t row = 0;
    for (; rows_ - row == kRows || rows_ - row > kRows + 2; row += kRows)
      work(std::integral_constant<int, kRows>(), row);
    if (rows_ - row > kRows) {  // four and the rest: one or two rows alone have too few sums to hide latency
      work(std::integral_constant<int, 4>(), row);
      row += 4;
    }
    switch (rows_ - row) {
      case 5:
        return work(std::integral_constant<int, 5>(), row);
      case 4:
        return work(std::integral_constant<int, 4>(), row);
      case 3:
        return work(std::integral_constant<int, 3>(), row);
      case 2:
        return work(std::integral_constant<int, 2>(), row);
      case 1:
        return work(std::integral_constant<int, 1>(), row);
    }
  }

  void read_keys(const Span<T>& span) {
    for (int64_t key = 0; key < span.count; key += kLanes)
      for (int64_t word = 0; word < dim_ / kNumbers; word += kLanes) {
        __m512i square[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          const T* from = span.keys + (key + i) * span.key_stride + word * kNumbers;
          square[i] = key + i < span.count ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
        }
        prefetcher_.ask(4);
        transpose(square);
        for (int64_t i = 0; i < kLanes; ++i) _mm512_storeu_si512(&keys_[(word + i) * kBlock + key], square[i]);
      }
  }

  void read_values(const Span<T>& span) {
    for (int64_t key = 0; key < span.count; key += kNumbers) {
      prefetcher_.ask(1);
      uint32_t* to = &values_[key / kNumbers * dim_];
      const T* from = span.values + key * span.value_stride;
      const T* next = key + 1 < span.count ? from + span.value_stride : nullptr;
      for (int64_t at = 0; at < dim_; at += kLanes * kNumbers) {
        __m512i columns[kNumbers];
        side_by_side(from, next, at, columns);
        for (int64_t c = 0; c < kNumbers; ++c) _mm512_storeu_si512(to + at + c * kLanes, columns[c]);
      }
    }
  }

  // A key's values from `at` on, paired with the next key's, or with zeros: one word per dimension.
  static void side_by_side(const T* values, const T* next, int64_t at, __m512i columns[kNumbers]) {
    const __m512i row = _mm512_loadu_si512(values + at);
    if constexpr (kNumbers == 1)
      columns[0] = row;
    else
      interleave(row, next ? _mm512_loadu_si512(next + at) : _mm512_setzero_si512(), columns);
  }

  // Scores of `Count` rows, written to [rows, stride], 32 keys at a time to hide latency.
  template <int Count>
  void score(int64_t row, int64_t keys, float* scores, int64_t stride) {
    const int64_t words = dim_ / kNumbers;
    for (int64_t key = 0; key < keys; key += 2 * kLanes) {
      __m512 sums[Count][2];
      for (auto& of_row : sums) of_row[0] = of_row[1] = _mm512_setzero_ps();
      for (int64_t word = 0; word < words; ++word) {
        if (word % 2) prefetcher_.ask(1);
        const uint32_t* column = &keys_[word * kBlock + key];
        const __m512i left = _mm512_loadu_si512(column), right = _mm512_loadu_si512(column + kLanes);
#pragma GCC unroll 6
        for (int i = 0; i < Count; ++i) {
          const __m512i number = every_lane(q_[(row + i) * words + word]);
          sums[i][0] = Word<T>::multiply_add(sums[i][0], left, number);
          sums[i][1] = Word<T>::multiply_add(sums[i][1], right, number);
        }
      }
      for (int i = 0; i < Count; ++i) {
        _mm512_storeu_ps(scores + (row + i) * stride + key, sums[i][0]);
        _mm512_storeu_ps(scores + (row + i) * stride + key + kLanes, sums[i][1]);
      }
    }
  }

  // Scores, plus `added` if not null, to softmax shares.
  void weigh(int64_t row, int64_t keys, float scale, const float* added) {
    float* scores = &scores_[row * kBlock];
    T* shares = &shares_[row * kBlock];
    __m512 highest = _mm512_set1_ps(kNegInf);
    for (int64_t key = 0; key < keys; key += kLanes) {
      const __mmask16 there = static_cast<__mmask16>((1u << std::min(keys - key, kLanes)) - 1);
      const __m512 more = added ? _mm512_maskz_loadu_ps(there, added + key) : _mm512_setzero_ps();
      const __m512 masked = _mm512_fmadd_ps(_mm512_loadu_ps(scores + key), _mm512_set1_ps(scale), more);
      const __m512 seen = _mm512_mask_blend_ps(there, _mm512_set1_ps(kNegInf), masked);
      _mm512_storeu_ps(scores + key, seen);
      highest = _mm512_max_ps(highest, seen);
    }
    const float now = relative_to(row, highest);
    const bool nothing = now == kNegInf;
    __m512 sum = _mm512_setzero_ps();
    for (int64_t key = 0; key < keys; key += kLanes) {
      const __m512 seen = _mm512_loadu_ps(scores + key);
      const __mmask16 hides =
          nothing ? __mmask16(0xffff) : _mm512_cmp_ps_mask(seen, _mm512_set1_ps(kNegInf), _CMP_EQ_OQ);
      const __m512 share =
          _mm512_mask_blend_ps(hides, exponential(_mm512_sub_ps(seen, _mm512_set1_ps(now))), _mm512_setzero_ps());
      sum = _mm512_add_ps(sum, share);
      Word<T>::store(shares + key, share);
    }
    if (!nothing) add(row, sum);
  }

  // The same, with equal results for finite scores, for a whole block with nothing masked or added.
  void weigh_block(int64_t row, float scale) {
    constexpr int64_t lanes = kBlock / kLanes;
    __m512 seen[lanes], highest = _mm512_set1_ps(kNegInf);
#pragma GCC unroll 4
    for (int64_t i = 0; i < lanes; ++i) {
      seen[i] = _mm512_mul_ps(_mm512_loadu_ps(&scores_[row * kBlock + i * kLanes]), _mm512_set1_ps(scale));
      highest = _mm512_max_ps(highest, seen[i]);
    }
    const __m512 now = _mm512_set1_ps(relative_to(row, highest));
    __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int64_t i = 0; i < lanes; ++i) {
      const __m512 share = exponential(_mm512_sub_ps(seen[i], now));
      sum = _mm512_add_ps(sum, share);
      Word<T>::store(&shares_[row * kBlock + i * kLanes], share);
    }
    add(row, sum);
  }

  // The score subtracted from a row's scores: the largest so far, less at most `kSlack`, because every change rescales
  // the sums.
  float relative_to(int64_t row, __m512 highest) {
    float& top = part_.top[row];
    if (_mm512_cmp_ps_mask(highest, _mm512_set1_ps(top + kSlack), _CMP_NLE_UQ)) {
      const float now = std::max(_mm512_reduce_max_ps(highest), top);  // in this order, NaN stays
      const __m512 keep = _mm512_set1_ps(std::exp(top - now));
      const auto rescale = [&](float* numbers) {
        _mm512_storeu_ps(numbers, top == kNegInf ? _mm512_setzero_ps() : _mm512_mul_ps(_mm512_loadu_ps(numbers), keep));
      };
      for (int64_t at = 0; at < dim_; at += kLanes) rescale(part_.out + row * dim_ + at);
      rescale(part_.total + row * kLanes);
      top = now;
    }
    return top;
  }

  // Adds a block's shares to the total.
  void add(int64_t row, __m512 sum) {
    _mm512_storeu_ps(part_.total + row * kLanes, _mm512_add_ps(part_.total_of(row), sum));
  }

  // Adds values times shares, 64 dimensions at a time where possible.
  template <int Count>
  void gather(int64_t row, int64_t keys) {
    int64_t at = 0;
    for (; at + 4 * kLanes <= dim_; at += 4 * kLanes) gather_at<Count, 4>(row, keys, at);
    for (; at < dim_; at += kLanes) gather_at<Count, 1>(row, keys, at);
  }

  template <int Count, int Columns>
  void gather_at(int64_t row, int64_t keys, int64_t at) {
    __m512 sums[Count][Columns];
    for (int i = 0; i < Count; ++i)
      for (int c = 0; c < Columns; ++c) sums[i][c] = _mm512_loadu_ps(part_.out + (row + i) * dim_ + at + c * kLanes);
    for (int64_t key = 0; key < keys; key += kNumbers) {
      prefetcher_.ask(1);
      const uint32_t* values = &values_[key / kNumbers * dim_ + at];
      __m512i columns[Columns];
#pragma GCC unroll 4
      for (int c = 0; c < Columns; ++c) columns[c] = _mm512_loadu_si512(values + c * kLanes);
#pragma GCC unroll 6
      for (int i = 0; i < Count; ++i) {
        const __m512i share =
            every_lane(reinterpret_cast<const uint32_t*>(&shares_[(row + i) * kBlock])[key / kNumbers]);
#pragma GCC unroll 4
        for (int c = 0; c < Columns; ++c) sums[i][c] = Word<T>::multiply_add(sums[i][c], columns[c], share);
      }
    }
    for (int i = 0; i < Count; ++i)
      for (int c = 0; c < Columns; ++c) _mm512_storeu_ps(part_.out + (row + i) * dim_ + at + c * kLanes, sums[i][c]);
  }

  // The same for one row's lanes from `first` on; lanes before `cached` are cached keys.
  void gather_own(int64_t row, int64_t first, int64_t cached, const Span<T>& last, const Span<T>& own,
                  const Paths::Some& path) {
    const int64_t end = cached + path.count;
    const auto values = [&](int64_t lane) -> const T* {
      if (lane >= end) return nullptr;
      return lane < cached ? last.values + lane * last.value_stride
                           : own.values + path.keys[lane - cached] * own.value_stride;
    };
    const uint32_t* shares = reinterpret_cast<const uint32_t*>(&shares_[row * kBlock]);
    for (int64_t at = 0; at < dim_; at += kLanes * kNumbers) {
      float* out = part_.out + row * dim_ + at;
      __m512 sums[kNumbers];
      for (int64_t c = 0; c < kNumbers; ++c) sums[c] = _mm512_loadu_ps(out + c * kLanes);
      for (int64_t lane = first; lane < end; lane += kNumbers) {
        __m512i columns[kNumbers];
        side_by_side(values(lane), values(lane + 1), at, columns);
        const __m512i share = every_lane(shares[lane / kNumbers]);
        for (int64_t c = 0; c < kNumbers; ++c) sums[c] = Word<T>::multiply_add(sums[c], columns[c], share);
      }
      for (int64_t c = 0; c < kNumbers; ++c) _mm512_storeu_ps(out + c * kLanes, sums[c]);
    }
  }
};

}  // namespace specextend
