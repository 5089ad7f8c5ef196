// Rows that matrices multiply, prepared once for all matrices of a job.
#pragma once

#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "dense_matmul.h"
#include "int4_matmul.h"
#include "prompt_matmul.h"
#include "specextend.h"

namespace specextend {

template <typename T>
void widen(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) Word<float>::store(to + i, Word<T>::load(from + i));
}

template <typename T>
void narrow(const float* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; i += kLanes) Word<T>::store(to + i, Word<float>::load(from + i));
}

// `width` numbers of the first row times the inverse of their root mean square, times `weight`. `to` may be the row.
inline void rms_norm(const Rows& x, int64_t width, const float* weight, float epsilon, float* to) {
  Floats sum = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats some = Word<float>::load(x.at(0, i));
    sum = multiply_add(some, some, sum);
  }
  const float by = 1 / std::sqrt(sum_of(sum) / static_cast<float>(width) + epsilon);
  for (int64_t i = 0; i < width; i += kLanes)
    Word<float>::store(to + i, Word<float>::load(x.at(0, i)) * by * Word<float>::load(weight + i));
}

// Rows that matrices multiply: `count` of them, normed where `norm` is given.
struct Source {
  Rows x;
  int64_t count, columns;
  const float* norm = nullptr;
  float epsilon = 0;
};

// How rows meet weights of four to eight bits: rounded to eight bits, as they are, or, with AMX, in bfloat16 as all
// weights are.
enum class Arithmetic { kRounded, kExact, kTiled };

// A source, prepared once for all matrices of a job, in each matrix's format. Every thread prepares its own: rows that
// another core has prepared would come from its cache.
template <typename T>
class Input {
 public:
  static Input& of_thread() {
    static thread_local Input input;
    return input;
  }

  void read(const Source& source, Arithmetic arithmetic, std::initializer_list<const SxMatrix*> matrices) {
    rows_ = source.count;
    arithmetic_ = arithmetic;
    Rows x = source.x;
    if (source.norm != nullptr) {
      normed_.resize(rows_ * source.columns);
      for (int64_t row = 0; row < rows_; ++row)
        rms_norm(source.x.from_row(row), source.columns, source.norm, source.epsilon, &normed_[row * source.columns]);
      x = Rows::by_rows(normed_.data(), source.columns);
    }
    bool ready[kFormats] = {};
    for (const SxMatrix* matrix : matrices)
      if (bool& is_ready = ready[format(*matrix)]; !std::exchange(is_ready, true)) prepare(*matrix, x, source.columns);
  }

  // The matrix's rows from `begin` to `end`, whole tiles of four bits, to the columns of `out` that have their numbers.
  void times(const SxMatrix& matrix, int64_t begin, int64_t end, const Sums& out) const {
    if (arithmetic_ == Arithmetic::kTiled) {
      tiled_.times(matrix, rows_, begin, end, out);
    } else if (matrix.kind == kBFloat16) {
      times_dense(halves_, rows_, static_cast<const BFloat16*>(matrix.weights), begin, end, out);
    } else if (matrix.kind == kFloat32) {
      times_dense(singles_, rows_, static_cast<const float*>(matrix.weights), begin, end, out);
    } else {
      arithmetic_ == Arithmetic::kExact ? times_codes(exact_, matrix, begin, end, out)
                                        : times_codes(rounded_, matrix, begin, end, out);
    }
  }

 private:
  static constexpr int64_t kFormats = kFloat32 + 1;
  int64_t rows_ = 0;
  Arithmetic arithmetic_ = Arithmetic::kRounded;
  std::vector<float> normed_;
  Plain<BFloat16> halves_;
  Plain<float> singles_;
  Exact exact_;
  Rounded rounded_;
  TiledRows tiled_;

  int64_t format(const SxMatrix& matrix) const {
    const bool is_one = arithmetic_ == Arithmetic::kTiled || matrix.kind < kBFloat16;
    return is_one ? int64_t{kFourBit} : matrix.kind;
  }

  void prepare(const SxMatrix& matrix, const Rows& x, int64_t columns) {
    if (arithmetic_ == Arithmetic::kTiled)
      tiled_.prepare(x, rows_, columns);
    else if (matrix.kind == kBFloat16)
      halves_.prepare(x, rows_, columns);
    else if (matrix.kind == kFloat32)
      singles_.prepare(x, rows_, columns);
    else if (arithmetic_ == Arithmetic::kExact)
      exact_.prepare(x, rows_, columns);
    else
      rounded_.prepare(x, rows_, columns);
  }

  template <typename Prepared>
  void times_codes(const Prepared& x, const SxMatrix& matrix, int64_t begin, int64_t end, const Sums& out) const {
    const auto* codes = static_cast<const uint8_t*>(matrix.weights);
    const auto* scales = static_cast<const BFloat16*>(matrix.scales);
    with_form(matrix.kind, [&]<typename Form>(Form) {
      times_tiles<Form>(x, rows_, codes, scales, begin / kTile, end / kTile, out);
    });
  }
};

}  // namespace specextend
