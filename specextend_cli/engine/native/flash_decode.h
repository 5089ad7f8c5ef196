// Flash decoding: reads keys and values once for all queries that share them.
//
// A block of keys stays in the L1 cache. Its keys are transposed, so that a register holds sixteen of them, and
// multiplied with all rows; after an online softmax so are its values. Sums are float32. With tiles keys are multiplied
// as they lie, and the scores are transposed.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "simd.h"
#include "tiles.h"

namespace specextend {

constexpr int64_t kBlock = 64;  // keys
constexpr int64_t kRows = 6;    // multiplied at a time: their sums fit the registers
constexpr float kSlack = 8;     // by which scores may exceed the subtracted maximum: e^8 does not overflow

// Interleaves `kLanes` numbers of two rows, or of one row and zeros, to pairs.
inline Ints interleave(const BFloat16* even, const BFloat16* odd) {
  const Words low = __builtin_convertvector(load_as<Halves>(even), Words);
  return bits_of<Ints>(odd ? low | __builtin_convertvector(load_as<Halves>(odd), Words) << 16 : low);
}

// Scores of products of queries and keys: `scale` times the product, bent towards `cap` unless that is 0 (`cap_all`).
struct Scoring {
  float scale, cap;
};

// Keys of a block from `from` to before `to`; either may lie outside.
struct Range {
  int64_t from, to;
};

// Some keys and values of one head.
template <typename T>
struct Span {
  const T *keys, *values;
  int64_t key_stride, value_stride, count;

  // The block behind this one; `count` stays.
  Span later() const {
    return {keys + kBlock * key_stride, values + kBlock * value_stride, key_stride, value_stride, count};
  }
};

// Prefetches the block of keys and values that this thread reads next, while the present one is computed: evenly,
// because a core has few reads under way at a time. Prefetching past the end of the memory is harmless.
template <typename T>
class Prefetcher {
 public:
  Prefetcher() = default;

  // `work`: what `advance` will be given over a whole block, in any unit.
  Prefetcher(const Span<T>& next, int64_t dim, int64_t work)
      : keys_(next.keys),
        values_(next.values),
        key_stride_(next.key_stride),
        value_stride_(next.value_stride),
        dim_(dim),
        lines_(2 * kBlock * dim / kLine),
        left_(lines_),
        each_(std::max<int64_t>(1, work / lines_)) {}

  void advance(int64_t work) {
    for (due_ += work; due_ >= each_ && left_ > 0; due_ -= each_, --left_) {
      const bool key = left_ > lines_ / 2;
      __builtin_prefetch((key ? keys_ : values_) + at_, 0, 2);
      if ((at_ += kLine) < dim_) continue;
      at_ = 0;
      (key ? keys_ : values_) += key ? key_stride_ : value_stride_;
    }
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(T);

  const T *keys_ = nullptr, *values_ = nullptr;
  int64_t key_stride_ = 0, value_stride_ = 0, dim_ = 0, at_ = 0, lines_ = 0, left_ = 0, each_ = 1, due_ = 0;
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

  Floats total_of(int64_t row) const { return load_as<Floats>(total + row * kLanes); }
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
  int64_t length(int64_t node) const { return starts_[node + 1] - starts_[node]; }

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
  // This thread's, for `rows` queries of `dim` numbers and up to `own` keys of a tree.
  static Reader& of_thread(int64_t rows, int64_t dim, int64_t own) {
    static thread_local Reader reader;
    reader.rows_ = rows;
    reader.dim_ = dim;
    reader.own_ = own + kBlock - own % kBlock;
    reader.keys_.resize(kTiled ? kTileRows * dim / kNumbers : dim / kNumbers * kBlock);
    reader.values_.resize(kBlock / kNumbers * dim);
    reader.scores_.resize(rows * kBlock);
    reader.own_scores_.resize(rows * reader.own_);
    reader.shares_.resize(rows * kBlock);
    if constexpr (kTiled) reader.own_values_.resize(kTogether / kNumbers * dim);
    return reader;
  }

  // The head's queries [rows, dim].
  void ask(const T* q, const Scoring& scoring) {
    q_ = q;
    scoring_ = scoring;
    if constexpr (kTiled) {
      asked_.assign((rows_ + kTileRows - 1) / kTileRows * kTileRows * dim_ / kNumbers, 0);
      for (int64_t row = 0; row < rows_; ++row)
        for (int64_t word = 0; word < dim_ / kNumbers; ++word)
          asked_[(row / kTileRows * dim_ / kNumbers + word) * kTileRows + row % kTileRows] =
              word_at(q, row * dim_ / kNumbers + word);
    }
  }

  // The following blocks are added to `part`.
  void gather_in(const PartialSoftmax& part) { part_ = part; }

  void clear() const { std::fill_n(part_.top, rows_, kNegInf); }

  // At most a block of keys. `next` begins with what this thread probably reads next.
  void see(const Span<T>& span, const Span<T>& next) {
    see_some(span, next, [&](int64_t) { return Range{0, span.count}; });
  }

  // The same, where a row sees no more than the keys in the range `visible(row)`.
  template <typename Visible>
  void see_some(const Span<T>& span, const Span<T>& next, const Visible& visible) {
    prefetcher_ = Prefetcher<T>(next, dim_, work());
    score_all(span, scores_.data(), kBlock);
    read_values(span);
    for (int64_t row = 0; row < rows_; ++row) {
      const Range seen = visible(row);
      const int64_t count = seen.from < seen.to ? std::clamp<int64_t>(seen.to, 0, span.count) : 0;
      if (count == kBlock && seen.from <= 0) {
        weigh_block(row);
        continue;
      }
      if (count > 0 && seen.from > 0) {
        float hidden[kBlock] = {};
        std::fill_n(hidden, std::min(seen.from, kBlock), kNegInf);
        weigh(row, count, hidden);
      } else if (count > 0) {
        weigh(row, count, nullptr);
      }
      const int64_t weighed = (count + kLanes - 1) / kLanes * kLanes;
      std::fill(&shares_[row * kBlock] + weighed, &shares_[row * kBlock] + kBlock, T{});
    }
    gather_all((span.count + kTogether - 1) / kTogether * kTogether);
  }

  // The end of a sequence: the cached keys of a block that is not full, `last`, and after them each node's own, in this
  // block and further ones. `tree` [nodes, own] is added to the scores of own keys; the i-th block is added to
  // `part_of(i)`. Of all these lanes a node does not see the first `hidden(node)`.
  template <typename PartOf, typename Hidden>
  void see_end(const Span<T>& last, const Span<T>& own, const Paths& paths, const float* tree, const PartOf& part_of,
               const Hidden& hidden) {
    for (int64_t first = 0; first < own.count; first += kBlock) {
      const int64_t count = std::min(kBlock, own.count - first);
      score_all({own.keys + first * own.key_stride, own.values, own.key_stride, own.value_stride, count},
                own_scores_.data() + first, own_);
    }
    score_all(last, scores_.data(), kBlock);
    read_values(last);
    int64_t cached = last.count;  // lanes of the present block
    for (int64_t block = 0, seen = 0; block == 0 || seen < paths.longest; ++block) {
      gather_in(part_of(block));
      const int64_t room = kBlock - cached, whole = cached - cached % kTogether;
      for (int64_t row = 0; row < rows_; ++row) {
        const int64_t node = row % paths.nodes();
        const Paths::Some path = paths.of(node, seen, room);
        float added[kBlock] = {};
        for (int64_t i = 0; i < path.count; ++i) {
          scores_[row * kBlock + cached + i] = own_scores_[row * own_ + path.keys[i]];
          added[cached + i] = tree[node * own.count + path.keys[i]];
        }
        const int64_t count = cached + path.count;
        std::fill_n(added, std::clamp<int64_t>(hidden(node) - block * kBlock, 0, count), kNegInf);
        if (count > 0) weigh(row, count, added);
        if constexpr (kTiled) std::fill(&shares_[row * kBlock] + count, &shares_[row * kBlock] + kBlock, T{});
      }
      if (whole > 0) gather_all(whole);
      if constexpr (kTiled)
        for (int64_t node = 0; node < paths.nodes(); ++node)
          gather_own_tiles(node, paths.nodes(), whole, cached, last, own, paths.of(node, seen, room));
      else
        for (int64_t row = 0; row < rows_; ++row)
          gather_own(row, whole, cached, last, own, paths.of(row % paths.nodes(), seen, room));
      seen += room;
      cached = 0;
    }
  }

 private:
  static constexpr int64_t kNumbers = Word<T>::numbers;
  static constexpr bool kTiled = kHasTiles && kNumbers == 2;
  static constexpr int64_t kTransposing = 6 * kLanes, kPairing = 4;  // multiplications of registers that take as long
  static constexpr int64_t kTogether = kTiled ? 32 : kNumbers;       // keys whose values are added in one go

  int64_t rows_ = 0, dim_ = 0, own_ = 0;
  const T* q_ = nullptr;
  Scoring scoring_ = {};
  PartialSoftmax part_ = {};
  Prefetcher<T> prefetcher_;
  std::vector<uint32_t> keys_;        // [dim / numbers, block]; with tiles [16, dim / numbers], some beside nothing
  std::vector<uint32_t> asked_;       // [rows / 16, dim / numbers, 16], with tiles: the queries
  std::vector<uint32_t> values_;      // [block / numbers, dim]
  std::vector<uint32_t> own_values_;  // of 32 lanes, with tiles
  std::vector<float> scores_;         // [rows, block]
  std::vector<float> own_scores_;     // [rows, own]
  std::vector<T> shares_;             // [rows, block]

  // By how much the prefetcher advances in a block, in multiplications of registers. With tiles it does so only while
  // values are read: they leave no other time.
  int64_t work() const {
    const int64_t words = dim_ / kNumbers, pairs = kBlock / kNumbers, values = pairs * dim_ / kLanes;
    if constexpr (kTiled) return values * kPairing;
    const int64_t transposed = (kBlock / kLanes) * (words / kLanes);
    return transposed * kTransposing + values * kPairing + rows_ * (kBlock / kLanes * words + values);
  }

  // Scores of all rows, written to [rows, stride], of whole registers or tiles of keys.
  void score_all(const Span<T>& span, float* scores, int64_t stride) {
    if constexpr (kTiled) {
      for (int64_t row = 0; row < rows_; row += kTileRows) score_tiles(span, row, scores + row * stride, stride);
    } else {
      read_keys(span);
      each_few([&](auto count, int64_t row) { score<count()>(row, span.count, scores, stride); });
    }
    if (scoring_.cap != 0)
      for (int64_t row = 0; row < rows_; ++row)
        cap_all(scores + row * stride, span.count, scoring_.scale, scoring_.cap);
  }

  // By what `score_all`'s scores have still to be multiplied.
  float scale() const { return scoring_.cap == 0 ? scoring_.scale : 1; }

  // Scores of up to sixteen rows.
  void score_tiles(const Span<T>& span, int64_t row, float* scores, int64_t stride) {
    alignas(64) float products[kBlock * kTileRows];  // [keys, rows]
    const int64_t whole = span.count / kTileRows * kTileRows, words = dim_ / kNumbers;
    const uint32_t* const asked = &asked_[row * words];
    multiply_whole_tiles(span.keys, span.key_stride * sizeof(T), asked, products, whole / kTileRows, dim_ / 32);
    if (whole < span.count) {  // what lies behind them is not ours
      for (int64_t key = whole; key < span.count; ++key)
        std::memcpy(&keys_[(key - whole) * words], span.keys + key * span.key_stride, dim_ * sizeof(T));
      multiply_whole_tiles(keys_.data(), words * 4, asked, products + whole * kTileRows, 1, dim_ / 32);
    }
    for (int64_t key = 0; key < span.count; key += kTileRows) {
      Ints square[kTileRows];
      for (int64_t i = 0; i < kTileRows; ++i) square[i] = load_as<Ints>(products + (key + i) * kTileRows);
      transpose(square);
      for (int64_t i = 0; i < std::min(kTileRows, rows_ - row); ++i) store(scores + i * stride + key, square[i]);
    }
  }

  // Adds values times shares to all rows.
  void gather_all(int64_t keys) {
    if constexpr (kTiled)
      multiply_tiles(shares_.data(), kBlock * sizeof(T), values_.data(), dim_ * 4, part_.out, dim_ * 4, rows_,
                     keys / kTogether, dim_ / 16);
    else
      each_few([&](auto count, int64_t row) { gather<count()>(row, keys); });
  }

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
        Ints square[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          const T* from = span.keys + (key + i) * span.key_stride + word * kNumbers;
          square[i] = key + i < span.count ? load_as<Ints>(from) : Ints{};
        }
        prefetcher_.advance(kTransposing);
        transpose(square);
        for (int64_t i = 0; i < kLanes; ++i) store(&keys_[(word + i) * kBlock + key], square[i]);
      }
  }

  void read_values(const Span<T>& span) {
    for (int64_t key = 0; key < span.count; key += kNumbers) {
      prefetcher_.advance(dim_ / kLanes * kPairing);
      uint32_t* to = &values_[key / kNumbers * dim_];
      const T* from = span.values + key * span.value_stride;
      const T* next = key + 1 < span.count ? from + span.value_stride : nullptr;
      if constexpr (kNumbers == 2)
        for (int64_t at = 0; at < dim_; at += 2 * kLanes)
          interleave_all(from + at, next ? next + at : nullptr, to + at);
      else
        for (int64_t at = 0; at < dim_; at += kLanes) store(to + at, load_as<Ints>(from + at));
    }
    if constexpr (kTiled) {
      const int64_t filled = (span.count + kNumbers - 1) / kNumbers, whole = (span.count + kTogether - 1) / kTogether;
      std::fill(&values_[filled * dim_], values_.data() + whole * kTogether / kNumbers * dim_, 0);
    }
  }

  // Pairs of twice `kLanes` numbers of two rows, or of one row and zeros, to as many words.
  static void interleave_all(const T* even, const T* odd, uint32_t* to) {
#if defined(__AVX512BW__)
    const __m512i spread = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);  // what an unpacking of 128 bits at a time reads
    const __m512i low = _mm512_permutexvar_epi64(spread, _mm512_loadu_si512(even));
    const __m512i high = odd ? _mm512_permutexvar_epi64(spread, _mm512_loadu_si512(odd)) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(low, high));
    _mm512_storeu_si512(to + kLanes, _mm512_unpackhi_epi16(low, high));
#else
    store(to, interleave(even, odd));
    store(to + kLanes, interleave(even + kLanes, odd ? odd + kLanes : nullptr));
#endif
  }

  static void store(void* to, Ints words) { std::memcpy(to, &words, sizeof words); }

  // A key's values from `at` on, paired with the next key's, or with zeros: one word per dimension.
  static Ints side_by_side(const T* values, const T* next, int64_t at) {
    if constexpr (kNumbers == 1)
      return load_as<Ints>(values + at);
    else
      return interleave(values + at, next ? next + at : nullptr);
  }

  // Scores of `Count` rows, written to [rows, stride], 32 keys at a time to hide latency.
  template <int Count>
  void score(int64_t row, int64_t keys, float* scores, int64_t stride) {
    const int64_t words = dim_ / kNumbers;
    for (int64_t key = 0; key < keys; key += 2 * kLanes) {
      Floats sums[Count][2];
      for (auto& of_row : sums) of_row[0] = of_row[1] = Floats{};
      for (int64_t word = 0; word < words; ++word) {
        if (word % 2) prefetcher_.advance(4 * Count);
        const uint32_t* column = &keys_[word * kBlock + key];
        const Ints left = load_as<Ints>(column), right = load_as<Ints>(column + kLanes);
#pragma GCC unroll 6
        for (int i = 0; i < Count; ++i) {
          const Ints number = every_lane(word_at(q_, (row + i) * words + word));
          sums[i][0] = Word<T>::multiply_add(sums[i][0], left, number);
          sums[i][1] = Word<T>::multiply_add(sums[i][1], right, number);
        }
      }
      for (int i = 0; i < Count; ++i) {
        Word<float>::store(scores + (row + i) * stride + key, sums[i][0]);
        Word<float>::store(scores + (row + i) * stride + key + kLanes, sums[i][1]);
      }
    }
  }

  // Scores, plus `added` if not null, to softmax shares.
  void weigh(int64_t row, int64_t keys, const float* added) {
    const float scale = this->scale();
    float* scores = &scores_[row * kBlock];
    T* shares = &shares_[row * kBlock];
    Floats highest = every(kNegInf);
    for (int64_t key = 0; key < keys; key += kLanes) {
      const Ints there = below(keys - key);
      const Floats more = added ? Word<float>::load(added + key) : Floats{};
      const Floats masked = multiply_add(Word<float>::load(scores + key), every(scale), more);
      const Floats seen = there ? masked : every(kNegInf);
      Word<float>::store(scores + key, seen);
      highest = maximum(seen, highest);
    }
    const float now = relative_to(row, highest);
    const bool nothing = now == kNegInf;
    Floats sum = {};
    for (int64_t key = 0; key < keys; key += kLanes) {
      const Floats seen = Word<float>::load(scores + key);
      const Floats share = nothing ? Floats{} : seen == kNegInf ? Floats{} : exponential(seen - now);
      sum += share;
      Word<T>::store(shares + key, share);
    }
    if (!nothing) add(row, sum);
  }

  // The same, with equal results for finite scores, for a whole block with nothing masked or added.
  void weigh_block(int64_t row) {
    constexpr int64_t lanes = kBlock / kLanes;
    const float scale = this->scale();
    Floats seen[lanes], highest = every(kNegInf);
#pragma GCC unroll 16
    for (int64_t i = 0; i < lanes; ++i) {
      seen[i] = Word<float>::load(&scores_[row * kBlock + i * kLanes]) * scale;
      highest = maximum(seen[i], highest);
    }
    const float now = relative_to(row, highest);
    Floats sum = {};
#pragma GCC unroll 16
    for (int64_t i = 0; i < lanes; ++i) {
      const Floats share = exponential(seen[i] - now);
      sum += share;
      Word<T>::store(&shares_[row * kBlock + i * kLanes], share);
    }
    add(row, sum);
  }

  // The score subtracted from a row's scores: the largest so far, less at most `kSlack`, because every change rescales
  // the sums.
  float relative_to(int64_t row, Floats highest) {
    float& top = part_.top[row];
    if (any(~(highest <= top + kSlack))) {
      const float largest = largest_of(highest), now = largest <= top ? top : largest;  // NaN stays
      const float keep = std::exp(top - now);
      const auto rescale = [&](float* numbers) {
        Word<float>::store(numbers, top == kNegInf ? Floats{} : Word<float>::load(numbers) * keep);
      };
      for (int64_t at = 0; at < dim_; at += kLanes) rescale(part_.out + row * dim_ + at);
      rescale(part_.total + row * kLanes);
      top = now;
    }
    return top;
  }

  // Adds a block's shares to the total.
  void add(int64_t row, Floats sum) { Word<float>::store(part_.total + row * kLanes, part_.total_of(row) + sum); }

  // Adds values times shares, some registers of dimensions at a time where possible.
  template <int Count>
  void gather(int64_t row, int64_t keys) {
    constexpr int columns = kRegisters == 32 ? 4 : 2;
    int64_t at = 0;
    for (; at + columns * kLanes <= dim_; at += columns * kLanes) gather_at<Count, columns>(row, keys, at);
    for (; at < dim_; at += kLanes) gather_at<Count, 1>(row, keys, at);
  }

  template <int Count, int Columns>
  void gather_at(int64_t row, int64_t keys, int64_t at) {
    Floats sums[Count][Columns];
    for (int i = 0; i < Count; ++i)
      for (int c = 0; c < Columns; ++c) sums[i][c] = Word<float>::load(part_.out + (row + i) * dim_ + at + c * kLanes);
    for (int64_t key = 0; key < keys; key += kNumbers) {
      prefetcher_.advance(Count * Columns);
      const uint32_t* values = &values_[key / kNumbers * dim_ + at];
      Ints columns[Columns];
#pragma GCC unroll 4
      for (int c = 0; c < Columns; ++c) columns[c] = load_as<Ints>(values + c * kLanes);
#pragma GCC unroll 6
      for (int i = 0; i < Count; ++i) {
        const Ints share = every_lane(word_at(&shares_[(row + i) * kBlock], key / kNumbers));
#pragma GCC unroll 4
        for (int c = 0; c < Columns; ++c) sums[i][c] = Word<T>::multiply_add(sums[i][c], columns[c], share);
      }
    }
    for (int i = 0; i < Count; ++i)
      for (int c = 0; c < Columns; ++c) Word<float>::store(part_.out + (row + i) * dim_ + at + c * kLanes, sums[i][c]);
  }

  static uint32_t word_at(const T* numbers, int64_t index) {
    return load_as<uint32_t>(reinterpret_cast<const char*>(numbers) + 4 * index);
  }

  // A lane's values: those of a cached key, or of one on a node's path; null behind them.
  static const T* values_of(int64_t lane, int64_t cached, const Span<T>& last, const Span<T>& own,
                            const Paths::Some& path) {
    if (lane < cached) return last.values + lane * last.value_stride;
    return lane < cached + path.count ? own.values + path.keys[lane - cached] * own.value_stride : nullptr;
  }

  // Adds the lanes of one row from `first` on; those before `cached` are cached keys.
  void gather_own(int64_t row, int64_t first, int64_t cached, const Span<T>& last, const Span<T>& own,
                  const Paths::Some& path) {
    for (int64_t at = 0; at < dim_; at += kLanes) {
      float* out = part_.out + row * dim_ + at;
      Floats sum = Word<float>::load(out);
      for (int64_t lane = first; lane < cached + path.count; lane += kNumbers)
        sum = Word<T>::multiply_add(
            sum,
            side_by_side(values_of(lane, cached, last, own, path), values_of(lane + 1, cached, last, own, path), at),
            every_lane(word_at(&shares_[row * kBlock], lane / kNumbers)));
      Word<float>::store(out, sum);
    }
  }

  // The same for all rows of a node, by tiles.
  void gather_own_tiles(int64_t node, int64_t nodes, int64_t first, int64_t cached, const Span<T>& last,
                        const Span<T>& own, const Paths::Some& path) {
    for (; first < cached + path.count; first += kTogether) {
      uint32_t* to = own_values_.data();
      for (int64_t lane = first; lane < first + kTogether; lane += kNumbers, to += dim_) {
        const T* const values = values_of(lane, cached, last, own, path);
        const T* const next = values_of(lane + 1, cached, last, own, path);
        for (int64_t at = 0; at < dim_; at += kLanes) store(to + at, values ? side_by_side(values, next, at) : Ints{});
      }
      multiply_tiles(&shares_[node * kBlock + first], nodes * kBlock * sizeof(T), own_values_.data(), dim_ * 4,
                     part_.out + node * dim_, nodes * dim_ * 4, rows_ / nodes, 1, dim_ / 16);
    }
  }
};

}  // namespace specextend
