// The forward of a decoder for few rows: a token, a tree's nodes, a token of each of several sequences, or a block of a
// prompt's tokens.
//
// Numbers between the operations are float32, whatever the model's format; keys and values, and queries that meet them,
// are in the model's format.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "attention.h"
#include "pack.h"
#include "source.h"

namespace specextend {

// Rotates the first `rotated` numbers of a head: the lower half with the upper one.
inline void rotate(float* head, int64_t rotated, const float* cos, const float* sin) {
  const int64_t half = rotated / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float low = head[i], high = head[i + half];
    head[i] = low * cos[i] - high * sin[i];
    head[i + half] = high * cos[i + half] + low * sin[i + half];
  }
}

// gate [n] = silu(gate) * up, or gelu(gate) * up. n is a multiple of `kLanes`.
template <typename T>
void gate_some(bool is_gelu, int64_t n, T* gate, const T* up) {
  const auto by = [=](auto activation) {
    for (int64_t i = 0; i < n; i += kLanes)
      Word<T>::store(gate + i, activation(Word<T>::load(gate + i)) * Word<T>::load(up + i));
  };
  is_gelu ? by([](Floats x) { return gelu(x); }) : by([](Floats x) { return silu(x); });
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
    take(model, step, 0, step.rows * step.sequences, few(model));
    own_ = step.earlier + step.rows;
    mask_.assign(step.rows * own_, kNegInf);
    for (int64_t row = 0; row < step.rows; ++row)
      for (int64_t key = 0; key < own_; ++key)
        if (step.tree ? step.tree[row * own_ + key] : key <= step.earlier + row) mask_[row * own_ + key] = 0;
    const Paths paths(mask_.data(), step.rows, own_);
    begin();
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      attention(layer, paths);
      finish(model.layer[layer], gathered_.data());
    }
    end();
    const int64_t kept = step.sequences > 1 ? rows_ : step.keep;
    logits({Rows::by_rows(normed_.data(), model.hidden).from_row(rows_ - kept), kept, model.hidden});
  }

  // How few rows are multiplied.
  static Arithmetic few(const SxModel& model) { return model.exact ? Arithmetic::kExact : Arithmetic::kRounded; }

  // The following is about `count` of the step's rows, from `first` on.
  void take(const SxModel& model, const SxStep& step, int64_t first, int64_t count, Arithmetic arithmetic) {
    arithmetic_ = arithmetic;
    model_ = &model;
    step_ = &step;
    first_ = first;
    rows_ = count;
  }

  // Exchanges the present states with other rows'.
  void exchange(std::vector<float>& states) { states_.swap(states); }

  // The states that the first layer reads.
  void begin() {
    const int64_t hidden = model_->hidden;
    states_.resize(rows_ * hidden);
    embeddings_.resize(rows_ * hidden);
    for (int64_t row = 0; row < rows_; ++row) embed(step_->tokens[first_ + row], &embeddings_[row * hidden]);
    for (float& number : embeddings_) number *= model_->embedding_multiplier;
    if (step_->features != nullptr) {
      read_.resize(rows_ * model_->fused.columns);
      widen(static_cast<const T*>(step_->features), rows_ * model_->fused.columns, read_.data());
      multiply(model_->fused, by_rows(read_, model_->fused.columns), states_);
      return;
    }
    if (step_->states == nullptr) {
      keep(embeddings_);
      return;
    }
    normed_.resize(rows_ * hidden);
    widen(static_cast<const T*>(step_->states), rows_ * hidden, normed_.data());
    if (model_->joined.kind == kNone) {
      keep(normed_);
      return;
    }
    beside(embeddings_, normed_);
    multiply(model_->joined, by_rows(read_, 2 * hidden), states_);
  }

  // Queries of a layer, to `asked` [sequences, heads, rows of the step, head_dim], and its keys and values.
  void ask(int64_t index, T* asked) {
    const SxModel& m = *model_;
    const SxLayer& layer = m.layer[index];
    give_states(index, tiles(states_));
    if (layer.state_norm != nullptr) {  // the first layer of an EAGLE-3 head
      norm(Rows::by_rows(embeddings_.data(), m.hidden), layer.attention_norm, gathered_);
      norm(tiles(states_), layer.state_norm, normed_);
      beside(gathered_, normed_);
      if (layer.residual_is_normed) keep(normed_);
      project_all(layer, by_rows(read_, 2 * m.hidden));
    } else {
      project_all(layer, states(layer.attention_norm));
    }
    write(index, asked);
  }

  // The rest of a layer behind its attention, which gave these rows `attended` [rows, heads * head_dim].
  void finish(const SxLayer& layer, const float* attended) {
    add(layer.o, {Rows::by_rows(attended, layer.o.columns), rows_, layer.o.columns}, layer.attention_out);
    mlp(layer);
  }

  // The final norm. Returns the normed rows [rows, hidden].
  const float* end() {
    const SxModel& m = *model_;
    norm(tiles(states_), m.norm, normed_);
    const Rows normed = Rows::by_rows(normed_.data(), m.hidden);
    give_states(m.layers, normed);
    if (step_->after != nullptr) {
      const Rows after = m.feeds_normed ? normed : Rows(tiles(states_));
      for (int64_t row = 0; row < rows_; ++row) give(after, row, static_cast<T*>(step_->after) + row * m.hidden);
    }
    return normed_.data();
  }

  // The step's logits, of normed rows.
  void logits(const Source& normed) {
    const SxModel& m = *model_;
    rows_ = normed.count;
    in_threads(normed, {&m.head}, (m.head.rows + kTile - 1) / kTile, 16, [&](int64_t begin, int64_t end) {
      const int64_t last = std::min(end * kTile, m.head.rows);
      Input<T>::of_thread().times(m.head, begin * kTile, last, Sums::by_rows(step_->logits, m.head.rows));
      for (int64_t row = 0; row < normed.count; ++row) {
        float* const some = step_->logits + row * m.head.rows + begin * kTile;
        const int64_t count = last - begin * kTile;
        if (m.logits_divisor != 1)
          for (int64_t i = 0; i < count; ++i) some[i] /= m.logits_divisor;
        if (m.logits_cap != 0) cap_all(some, count, 1, m.logits_cap);
      }
    });
  }

 private:
  const SxModel* model_ = nullptr;
  const SxStep* step_ = nullptr;
  Arithmetic arithmetic_ = Arithmetic::kRounded;
  int64_t first_ = 0, rows_ = 0;  // of the step's rows
  int64_t own_ = 0;               // rows of the tree, earlier ones included
  std::vector<float> mask_, states_, embeddings_, normed_, read_, q_, k_, v_, head_, gathered_, gated_, up_, added_;
  std::vector<T> queries_, embedded_;
  std::vector<int64_t> from_;

  // Of a vector with the numbers of all rows, in tiles.
  Sums tiles(std::vector<float>& numbers) const { return Sums::by_tiles(numbers.data(), rows_); }

  Source by_rows(const std::vector<float>& numbers, int64_t columns) const {
    return {Rows::by_rows(numbers.data(), columns), rows_, columns};
  }

  // Calls work(begin, end) for parts of some tiles of columns, in threads that have read the source.
  template <typename Work>
  void in_threads(const Source& source, std::initializer_list<const SxMatrix*> matrices, int64_t tiles, int64_t least,
                  const Work& work) {
    const Arithmetic arithmetic = arithmetic_;
    in_parts(tiles, least, [&] { Input<T>::of_thread().read(source, arithmetic, matrices); }, work);
  }

  void embed(int64_t token, float* to) {
    const int64_t hidden = model_->hidden;
    const SxMatrix& embedding = model_->embedding;
    if (embedding.kind < kBFloat16) {
      embedded_.resize(hidden);
      unpack_row(embedding, token, embedded_.data());
      widen(embedded_.data(), hidden, to);
    } else {
      widen(static_cast<const T*>(embedding.weights) + token * hidden, hidden, to);
    }
  }

  // Makes these rows the states.
  void keep(const std::vector<float>& rows) {
    const Sums states = tiles(states_);
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t i = 0; i < model_->hidden; i += kTile)
        std::copy_n(&rows[row * model_->hidden + i], kTile, states.at(row, i));
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

  // Rows of hidden states, normed, or as they are without a weight.
  void norm(const Rows& x, const float* weight, std::vector<float>& to) const {
    const int64_t hidden = model_->hidden;
    to.resize(rows_ * hidden);
    for (int64_t row = 0; row < rows_; ++row) {
      float* const normed = &to[row * hidden];
      if (weight != nullptr)
        rms_norm(x.from_row(row), hidden, weight, model_->epsilon, normed);
      else
        for (int64_t i = 0; i < hidden; i += kTile) std::copy_n(x.at(row, i), kTile, normed + i);
    }
  }

  // Sets `to` to the source times the matrix, plus its bias; where `adds`, adds that by the residual multiplier.
  void multiply(const SxMatrix& matrix, const Source& source, std::vector<float>& to, bool adds = false) {
    std::vector<float>& out = adds ? added_ : to;
    out.resize(rows_ * matrix.rows);
    const int64_t whole = rows_ * kTile;  // of a tile
    in_threads(source, {&matrix}, matrix.rows / kTile, 1, [&](int64_t begin, int64_t end) {
      project(matrix, begin, end, out);
      if (adds)
        for (int64_t i = begin * whole; i < end * whole; ++i) to[i] += model_->residual_multiplier * out[i];
    });
  }

  // Adds the source times the matrix to the states, by the residual multiplier, and normed where there is a norm.
  void add(const SxMatrix& matrix, const Source& source, const float* out_norm) {
    if (out_norm == nullptr) return multiply(matrix, source, states_, true);
    multiply(matrix, source, added_);
    norm(tiles(added_), out_norm, normed_);
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t i = 0; i < model_->hidden; i += kTile) {
        float* const to = tiles(states_).at(row, i);
        for (int64_t j = 0; j < kTile; ++j)
          to[j] += model_->residual_multiplier * normed_[row * model_->hidden + i + j];
      }
  }

  // Tiles of the matrix's product, with their bias, to `out`.
  void project(const SxMatrix& matrix, int64_t begin, int64_t end, std::vector<float>& out) const {
    const Sums sums = tiles(out);
    Input<T>::of_thread().times(matrix, begin * kTile, end * kTile, sums);
    if (matrix.bias == nullptr) return;
    const T* bias = static_cast<const T*>(matrix.bias);
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t i = begin * kTile; i < end * kTile; ++i) *sums.at(row, i) += number(bias[i]);
  }

  static float number(float x) { return x; }
  static float number(BFloat16 x) { return x.wide(); }

  void attention(int64_t index, const Paths& paths) {
    const SxModel& m = *model_;
    const SxLayer& layer = m.layer[index];
    T* const asked = step_->queries != nullptr && step_->queries[index] != nullptr
                         ? static_cast<T*>(step_->queries[index])
                         : (queries_.resize(rows_ * m.heads * m.head_dim), queries_.data());
    ask(index, asked);
    gathered_.resize(rows_ * m.heads * m.head_dim);
    const Cached<T> cached = {static_cast<const T*>(step_->keys) + index * step_->by_layer,
                              static_cast<const T*>(step_->values) + index * step_->by_layer, step_->by_sequence,
                              step_->by_head, m.head_dim};
    const int64_t* const from = first_rows(layer.window, paths);
    attend(asked, step_->sequences, m.kv_heads, m.heads / m.kv_heads, step_->rows, m.head_dim, cached, step_->seen,
           own_, mask_.data(), paths, from, {layer.scale, layer.cap}, gathered_.data());
  }

  // The first row that each node of each sequence sees through a window, or null.
  const int64_t* first_rows(int64_t window, const Paths& paths) {
    if (window == 0) return nullptr;
    from_.clear();
    for (int64_t b = 0; b < step_->sequences; ++b)
      for (int64_t node = 0; node < step_->rows; ++node)
        from_.push_back(std::max<int64_t>(0, step_->seen[b] + paths.length(node) - window));
    return from_.data();
  }

  // The present states, normed.
  Source states(const float* weight) { return {tiles(states_), rows_, model_->hidden, weight, model_->epsilon}; }

  // Queries, keys and values, in one parallel region.
  void project_all(const SxLayer& layer, const Source& source) {
    q_.resize(rows_ * layer.q.rows);
    k_.resize(rows_ * layer.k.rows);
    v_.resize(rows_ * layer.v.rows);
    const struct {
      const SxMatrix& matrix;
      std::vector<float>& out;
    } all[] = {{layer.q, q_}, {layer.k, k_}, {layer.v, v_}};
    const int64_t every = (layer.q.rows + layer.k.rows + layer.v.rows) / kTile;
    in_threads(source, {&layer.q, &layer.k, &layer.v}, every, 1, [&](int64_t begin, int64_t end) {
      int64_t first = 0;
      for (const auto& [matrix, out] : all) {
        const int64_t tiles = matrix.rows / kTile;
        const int64_t from = std::clamp<int64_t>(begin - first, 0, tiles),
                      to = std::clamp<int64_t>(end - first, 0, tiles);
        if (from < to) project(matrix, from, to, out);
        first += tiles;
      }
    });
  }

  // Norms and rotates queries and keys; writes queries to `asked`, keys and values into the cache.
  void write(int64_t index, T* asked) {
    const SxModel& m = *model_;
    const SxLayer& layer = m.layer[index];
    const Sums q = tiles(q_), k = tiles(k_), v = tiles(v_);
    head_.resize(m.head_dim);
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t of_step = first_ + row, turn = (layer.table * step_->turns + step_->positions[of_step]) * m.rotated;
      const int64_t sequence = of_step / step_->rows, node = of_step % step_->rows;
      const auto turned = [&](const Sums& from, int64_t head, const float* weight, T* to) {
        float* const numbers = head_of(from, row, head);
        if (weight != nullptr) rms_norm(Rows::by_rows(numbers, m.head_dim), m.head_dim, weight, m.epsilon, numbers);
        if (layer.rotates) rotate(numbers, m.rotated, step_->cos + turn, step_->sin + turn);
        narrow(numbers, m.head_dim, to);
      };
      for (int64_t head = 0; head < m.heads; ++head)
        turned(q, head, layer.q_norm, asked + ((sequence * m.heads + head) * step_->rows + node) * m.head_dim);
      const int64_t at = index * step_->by_layer + sequence * step_->by_sequence +
                         (step_->seen[sequence] + step_->earlier + node) * m.head_dim;
      for (int64_t head = 0; head < m.kv_heads; ++head) {
        const int64_t to = at + head * step_->by_head;
        turned(k, head, layer.k_norm, static_cast<T*>(step_->keys) + to);
        narrow(head_of(v, row, head), m.head_dim, static_cast<T*>(step_->values) + to);
      }
    }
  }

  // A head of a row, in one piece.
  float* head_of(const Sums& from, int64_t row, int64_t head) {
    const int64_t dim = model_->head_dim;
    for (int64_t i = 0; i < dim; i += kTile) std::copy_n(from.at(row, head * dim + i), kTile, &head_[i]);
    return head_.data();
  }

  void mlp(const SxLayer& layer) {
    const int64_t width = layer.gate.rows, whole = rows_ * kTile;
    gated_.resize(rows_ * width);
    up_.resize(rows_ * width);
    const Source read = states(layer.mlp_norm);
    in_threads(read, {&layer.gate, &layer.up}, width / kTile, 1, [&](int64_t begin, int64_t end) {
      project(layer.gate, begin, end, gated_);
      project(layer.up, begin, end, up_);
      gate_some(layer.is_gelu, (end - begin) * whole, gated_.data() + begin * whole, up_.data() + begin * whole);
    });
    add(layer.down, {tiles(gated_), rows_, width}, layer.mlp_out);
  }

  void give_states(int64_t index, const Rows& states) {
    const int64_t hidden = model_->hidden, count = step_->feature_count;
    for (int64_t i = 0; i < count; ++i) {
      if (step_->feature_layers[i] != index) continue;
      for (int64_t row = 0; row < rows_; ++row)
        give(states, row, static_cast<T*>(step_->features_given) + ((first_ + row) * count + i) * hidden);
    }
  }

  // A row of hidden states, in the model's format.
  void give(const Rows& states, int64_t row, T* to) const {
    for (int64_t i = 0; i < model_->hidden; i += kTile) narrow(states.at(row, i), kTile, to + i);
  }
};

}  // namespace specextend
