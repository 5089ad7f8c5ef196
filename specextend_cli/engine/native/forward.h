// The forward of a decoder for few rows: a token, a tree's nodes, or a token of each of several sequences.
//
// Numbers between the operations are float32, whatever the model's format; keys and values, and queries that meet them,
// are in the model's format.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention.h"
#include "dense_matmul.h"
#include "int4_matmul.h"
#include "specextend.h"

namespace specextend {

// Rows, prepared once for all matrices that multiply them, in each matrix's format.
class Input {
 public:
  void set(const float* x, int64_t rows, int64_t columns, bool exact) {
    x_ = x;
    rows_ = rows;
    columns_ = columns;
    is_exact_ = exact;
    std::fill_n(ready_, kFormats, false);
  }

  // To out [rows, stride]: the matrix's rows from `begin` to `end`, whole tiles of four bits, as its first columns.
  // `prepare` comes first, on one thread.
  void prepare(const SxMatrix& matrix) {
    const bool is_packed = matrix.kind == kFourBit || matrix.kind == kEightBit;
    bool& ready = ready_[is_packed ? kFourBit : matrix.kind];
    if (ready) return;
    ready = true;
    if (matrix.kind == kBFloat16)
      halves_.prepare(x_, rows_, columns_);
    else if (matrix.kind == kFloat32)
      singles_.prepare(x_, rows_, columns_);
    else if (is_exact_)
      exact_.prepare(x_, rows_, columns_);
    else
      rounded_.prepare(x_, rows_, columns_);
  }

  void times(const SxMatrix& matrix, int64_t begin, int64_t end, float* out, int64_t stride) const {
    if (matrix.kind == kBFloat16) {
      times_dense(halves_, rows_, static_cast<const BFloat16*>(matrix.weights), begin, end, out, stride);
    } else if (matrix.kind == kFloat32) {
      times_dense(singles_, rows_, static_cast<const float*>(matrix.weights), begin, end, out, stride);
    } else {
      is_exact_ ? times_packed(exact_, matrix, begin, end, out, stride)
                : times_packed(rounded_, matrix, begin, end, out, stride);
    }
  }

 private:
  const float* x_ = nullptr;
  int64_t rows_ = 0, columns_ = 0;
  static constexpr int64_t kFormats = kFloat32 + 1;
  bool is_exact_ = false, ready_[kFormats] = {};
  Plain<BFloat16> halves_;
  Plain<float> singles_;
  Exact exact_;
  Rounded rounded_;

  template <typename Rows>
  void times_packed(const Rows& x, const SxMatrix& matrix, int64_t begin, int64_t end, float* out,
                    int64_t stride) const {
    const auto* codes = static_cast<const uint8_t*>(matrix.weights);
    const auto* scales = static_cast<const BFloat16*>(matrix.scales);
    const auto times = matrix.kind == kFourBit ? times_tiles<4, Rows> : times_tiles<8, Rows>;
    times(x, rows_, codes, scales, begin / kTile, end / kTile, out, stride);
  }
};

template <typename T>
void widen(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) Word<float>::store(to + i, Word<T>::load(from + i));
}

template <typename T>
void narrow(const float* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; i += kLanes) Word<T>::store(to + i, Word<float>::load(from + i));
}

// `width` numbers times the inverse of their root mean square, times `weight`. `to` may be `x`.
template <typename T>
void rms_norm(const float* x, int64_t width, const T* weight, float epsilon, float* to) {
  Floats sum = {};
  for (int64_t i = 0; i < width; i += kLanes)
    sum = multiply_add(Word<float>::load(x + i), Word<float>::load(x + i), sum);
  const float by = 1 / std::sqrt(sum_of(sum) / static_cast<float>(width) + epsilon);
  for (int64_t i = 0; i < width; i += kLanes)
    Word<float>::store(to + i, Word<float>::load(x + i) * by * Word<T>::load(weight + i));
}

// Rotates the first `rotated` numbers of a head: the lower half with the upper one.
inline void rotate(float* head, int64_t rotated, const float* cos, const float* sin) {
  const int64_t half = rotated / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float low = head[i], high = head[i + half];
    head[i] = low * cos[i] - high * sin[i];
    head[i + half] = high * cos[i + half] + low * sin[i + half];
  }
}

template <typename T>
class Forward {
 public:
  // This thread's; its buffers stay.
  static Forward& of_thread() {
    static thread_local Forward forward;
    return forward;
  }

  void run(const SxModel& model, const SxStep& step) {
    model_ = &model;
    step_ = &step;
    rows_ = step.rows * step.sequences;
    own_ = step.earlier + step.rows;
    mask_.assign(step.rows * own_, kNegInf);
    for (int64_t row = 0; row < step.rows; ++row)
      for (int64_t key = 0; key < own_; ++key)
        if (step.tree ? step.tree[row * own_ + key] : key <= step.earlier + row) mask_[row * own_ + key] = 0;
    const Paths paths(mask_.data(), step.rows, own_);
    const int64_t hidden = model.hidden;
    states_.resize(rows_ * hidden);
    embeddings_.resize(rows_ * hidden);
    for (int64_t row = 0; row < rows_; ++row)
      widen(static_cast<const T*>(model.embedding) + step.tokens[row] * hidden, hidden, &embeddings_[row * hidden]);
    begin();
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      give_states(layer, states_);
      attention(layer, paths);
      mlp(model.layer[layer]);
    }
    end();
  }

 private:
  const SxModel* model_ = nullptr;
  const SxStep* step_ = nullptr;
  int64_t rows_ = 0, own_ = 0;  // rows of this forward; rows of its tree, earlier ones included
  std::vector<float> mask_, states_, embeddings_, normed_, read_, q_, k_, v_, gathered_, gated_, up_, logits_;
  std::vector<T> queries_;
  Input input_;

  // The states that the first layer reads.
  void begin() {
    const int64_t hidden = model_->hidden;
    if (step_->features != nullptr) {
      read_.resize(rows_ * model_->fused.columns);
      widen(static_cast<const T*>(step_->features), rows_ * model_->fused.columns, read_.data());
      multiply(model_->fused, read_, states_);
      return;
    }
    if (step_->states == nullptr) {
      states_ = embeddings_;
      return;
    }
    widen(static_cast<const T*>(step_->states), rows_ * hidden, states_.data());
    if (model_->joined.kind == kNone) return;
    beside(embeddings_, states_);
    multiply(model_->joined, read_, states_);
  }

  // Sets `read_` to rows [2 * hidden] of both.
  void beside(const std::vector<float>& left, const std::vector<float>& right) {
    const int64_t hidden = model_->hidden;
    read_.resize(rows_ * 2 * hidden);
    for (int64_t row = 0; row < rows_; ++row) {
      std::copy_n(&left[row * hidden], hidden, &read_[row * 2 * hidden]);
      std::copy_n(&right[row * hidden], hidden, &read_[row * 2 * hidden + hidden]);
    }
  }

  void norm(const std::vector<float>& x, const void* weight, std::vector<float>& to) {
    const int64_t hidden = model_->hidden;
    to.resize(rows_ * hidden);
    if (weight == nullptr) {
      std::copy_n(x.begin(), rows_ * hidden, to.begin());
      return;
    }
    for (int64_t row = 0; row < rows_; ++row)
      rms_norm(&x[row * hidden], hidden, static_cast<const T*>(weight), model_->epsilon, &to[row * hidden]);
  }

  // to [rows, matrix.rows] = x times the matrix, plus its bias, plus `to` where `adds`.
  void multiply(const SxMatrix& matrix, const std::vector<float>& x, std::vector<float>& to, bool adds = false) {
    take(x, matrix.columns);
    std::vector<float>& out = adds ? up_ : to;
    out.resize(rows_ * matrix.rows);
    input_.prepare(matrix);
    const int64_t stride = matrix.rows;
    in_parts(stride / kTile, 1, [&](int64_t begin, int64_t end) {
      project(matrix, begin * kTile, end * kTile, out.data(), stride);
      for (int64_t row = 0; adds && row < rows_; ++row)
        for (int64_t i = row * stride + begin * kTile; i < row * stride + end * kTile; ++i) to[i] += out[i];
    });
  }

  void take(const std::vector<float>& x, int64_t columns) { input_.set(x.data(), rows_, columns, model_->exact); }

  // The matrix's rows from `begin` to `end`, with their bias, to out [rows, stride].
  void project(const SxMatrix& matrix, int64_t begin, int64_t end, float* out, int64_t stride) const {
    input_.times(matrix, begin, end, out, stride);
    if (matrix.bias == nullptr) return;
    const T* bias = static_cast<const T*>(matrix.bias);
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t i = begin; i < end; ++i) out[row * stride + i] += number(bias[i]);
  }

  static float number(float x) { return x; }
  static float number(BFloat16 x) { return x.wide(); }

  void attention(int64_t index, const Paths& paths) {
    const SxModel& m = *model_;
    const SxLayer& layer = m.layer[index];
    if (layer.state_norm != nullptr) {  // the first layer of an EAGLE-3 head
      norm(embeddings_, layer.attention_norm, gated_);
      norm(states_, layer.state_norm, normed_);
      beside(gated_, normed_);
      if (layer.residual_is_normed) std::copy_n(normed_.begin(), rows_ * m.hidden, states_.begin());
      take(read_, 2 * m.hidden);
    } else {
      norm(states_, layer.attention_norm, normed_);
      take(normed_, m.hidden);
    }
    project_all(layer);
    write(index);
    T* const asked = step_->queries != nullptr && step_->queries[index] != nullptr
                         ? static_cast<T*>(step_->queries[index])
                         : (queries_.resize(rows_ * m.heads * m.head_dim), queries_.data());
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t head = 0; head < m.heads; ++head) {
        const int64_t sequence = row / step_->rows, node = row % step_->rows;
        narrow(&q_[(row * m.heads + head) * m.head_dim], m.head_dim,
               asked + ((sequence * m.heads + head) * step_->rows + node) * m.head_dim);
      }
    gathered_.resize(rows_ * m.heads * m.head_dim);
    const Cached<T> cached = {static_cast<const T*>(step_->keys) + index * step_->by_layer,
                              static_cast<const T*>(step_->values) + index * step_->by_layer, step_->by_sequence,
                              step_->by_head, m.head_dim};
    attend(asked, step_->sequences, m.kv_heads, m.heads / m.kv_heads, step_->rows, m.head_dim, cached,
           {step_->leader, step_->common}, step_->seen, own_, mask_.data(), paths, layer.scale, gathered_.data());
    multiply(layer.o, gathered_, states_, true);
  }

  // Queries, keys and values, in one parallel region.
  void project_all(const SxLayer& layer) {
    q_.resize(rows_ * layer.q.rows);
    k_.resize(rows_ * layer.k.rows);
    v_.resize(rows_ * layer.v.rows);
    const struct {
      const SxMatrix& matrix;
      float* out;
    } all[] = {{layer.q, q_.data()}, {layer.k, k_.data()}, {layer.v, v_.data()}};
    for (const auto& one : all) input_.prepare(one.matrix);
    in_parts((layer.q.rows + layer.k.rows + layer.v.rows) / kTile, 1, [&](int64_t begin, int64_t end) {
      int64_t first = 0;
      for (const auto& [matrix, out] : all) {
        const int64_t tiles = matrix.rows / kTile;
        const int64_t from = std::clamp<int64_t>(begin - first, 0, tiles),
                      to = std::clamp<int64_t>(end - first, 0, tiles);
        if (from < to) project(matrix, from * kTile, to * kTile, out, matrix.rows);
        first += tiles;
      }
    });
  }

  // Norms and rotates queries and keys, and writes keys and values into the cache.
  void write(int64_t index) {
    const SxModel& m = *model_;
    const SxLayer& layer = m.layer[index];
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t turn = step_->positions[row] * m.rotated, sequence = row / step_->rows;
      const auto turned = [&](float* head, const void* weight) {
        if (weight != nullptr) rms_norm(head, m.head_dim, static_cast<const T*>(weight), m.epsilon, head);
        if (layer.rotates) rotate(head, m.rotated, step_->cos + turn, step_->sin + turn);
      };
      for (int64_t head = 0; head < m.heads; ++head) turned(&q_[(row * m.heads + head) * m.head_dim], layer.q_norm);
      const int64_t at = index * step_->by_layer + sequence * step_->by_sequence +
                         (step_->seen[sequence] + step_->earlier + row % step_->rows) * m.head_dim;
      for (int64_t head = 0; head < m.kv_heads; ++head) {
        const int64_t from = (row * m.kv_heads + head) * m.head_dim, to = at + head * step_->by_head;
        turned(&k_[from], layer.k_norm);
        narrow(&k_[from], m.head_dim, static_cast<T*>(step_->keys) + to);
        narrow(&v_[from], m.head_dim, static_cast<T*>(step_->values) + to);
      }
    }
  }

  void mlp(const SxLayer& layer) {
    norm(states_, layer.mlp_norm, normed_);
    take(normed_, layer.gate.columns);
    const int64_t width = layer.gate.rows;
    gated_.resize(rows_ * width);
    up_.resize(rows_ * width);
    input_.prepare(layer.gate);
    input_.prepare(layer.up);
    in_parts(width / kTile, 1, [&](int64_t begin, int64_t end) {
      project(layer.gate, begin * kTile, end * kTile, gated_.data(), width);
      project(layer.up, begin * kTile, end * kTile, up_.data(), width);
      for (int64_t row = 0; row < rows_; ++row)
        for (int64_t at = row * width + begin * kTile; at < row * width + end * kTile; at += kLanes)
          Word<float>::store(&gated_[at], silu(Word<float>::load(&gated_[at])) * Word<float>::load(&up_[at]));
    });
    multiply(layer.down, gated_, states_, true);
  }

  // The final norm, and logits of the rows that are kept.
  void end() {
    const SxModel& m = *model_;
    norm(states_, m.final_norm, normed_);
    give_states(m.layers, normed_);
    if (step_->after != nullptr)
      narrow((m.feeds_normed ? normed_ : states_).data(), rows_ * m.hidden, static_cast<T*>(step_->after));
    const int64_t kept = step_->sequences > 1 ? rows_ : step_->keep;
    input_.set(&normed_[(rows_ - kept) * m.hidden], kept, m.hidden, m.exact);
    input_.prepare(m.head);
    in_parts((m.head.rows + kTile - 1) / kTile, 16, [&](int64_t begin, int64_t end) {
      input_.times(m.head, begin * kTile, std::min(end * kTile, m.head.rows), step_->logits, m.head.rows);
    });
  }

  void give_states(int64_t index, const std::vector<float>& states) {
    const int64_t hidden = model_->hidden, count = step_->feature_count;
    for (int64_t i = 0; i < count; ++i) {
      if (step_->feature_layers[i] != index) continue;
      for (int64_t row = 0; row < rows_; ++row)
        narrow(&states[row * hidden], hidden, static_cast<T*>(step_->features_given) + (row * count + i) * hidden);
    }
  }
};

}  // namespace specextend
