// What `specextend.h` declares.
#include "specextend.h"

#include "choose.h"
#include "forward.h"
#include "prompt_forward.h"
#include "top_k.h"

namespace specextend {
namespace {

template <typename T>
Cached<T> cache_of(const void* keys, const void* values, int64_t by_head, int64_t by_row) {
  return {static_cast<const T*>(keys), static_cast<const T*>(values), 0, by_head, by_row};
}

template <typename Prepared>
void int4_matmul(const SxMatrix& matrix, const float* x, int64_t count, float* out) {
  static thread_local Prepared own;
  with_form(matrix.kind, [&]<typename Form>(Form) {
    in_parts(
        matrix.rows / kTile, 1, [&] { own.prepare(Rows::by_rows(x, matrix.columns), count, matrix.columns); },
        [&](int64_t begin, int64_t end) {
          times_tiles<Form>(own, count, static_cast<const uint8_t*>(matrix.weights),
                            static_cast<const BFloat16*>(matrix.scales), begin, end, Sums::by_rows(out, matrix.rows));
        });
  });
}

}  // namespace
}  // namespace specextend

using specextend::BFloat16;

extern "C" {

void sx_threads(int64_t threads) { specextend::Pool::shared().use(threads); }

int64_t sx_forward(const SxModel* model, const SxStep* step) {
  for (int64_t row = 0; row < step->rows * step->sequences; ++row)
    if (step->tokens[row] < 0 || step->tokens[row] >= model->vocabulary) return 1;
  const auto run = [&]<typename T>(T*) {
    if (step->is_prompt)
      specextend::read_prompt<T>(*model, *step);
    else
      specextend::Forward<T>::of_thread().run(*model, *step);
  };
  model->bf16 ? run(static_cast<BFloat16*>(nullptr)) : run(static_cast<float*>(nullptr));
  return 0;
}

void sx_int4_matmul(const SxMatrix* matrix, const float* x, int64_t count, int64_t exact, float* out) {
  exact ? specextend::int4_matmul<specextend::Exact>(*matrix, x, count, out)
        : specextend::int4_matmul<specextend::Rounded>(*matrix, x, count, out);
}

int64_t sx_pack(int64_t type, const void* blocks, int64_t rows, int64_t columns, void* codes, void* scales) {
  using namespace specextend;
  const auto pack = [&]<typename Block>(Block) -> int64_t {
    return pack_blocks<Block>(static_cast<const uint8_t*>(blocks), rows, columns, static_cast<uint8_t*>(codes),
                              static_cast<BFloat16*>(scales))
               ? 0
               : 2;
  };
  switch (type) {  // ggml_type
    case 2:
      return pack(Simple<false, false>{});
    case 3:
      return pack(Simple<false, true>{});
    case 6:
      return pack(Simple<true, false>{});
    case 7:
      return pack(Simple<true, true>{});
    case 8:
      return pack(Q8_0{});
    case 12:
      return pack(Super<false>{});
    case 13:
      return pack(Super<true>{});
    case 14:
      return pack(Q6_K{});
    default:
      return 1;
  }
}

void sx_unpack(const SxMatrix* matrix, int64_t bf16, void* out) {
  bf16 ? specextend::unpack(*matrix, static_cast<BFloat16*>(out))
       : specextend::unpack(*matrix, static_cast<float*>(out));
}

void sx_unpack_rows(const SxMatrix* matrix, int64_t bf16, const int64_t* rows, int64_t count, void* out) {
  const auto unpack = [&]<typename T>(T* to) {
    specextend::in_parts(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) specextend::unpack_row(*matrix, rows[i], to + i * matrix->columns);
    });
  };
  bf16 ? unpack(static_cast<BFloat16*>(out)) : unpack(static_cast<float*>(out));
}

void sx_top_k(const float* logits, int64_t rows, int64_t columns, int64_t width, float* shares, int64_t* ids) {
  specextend::top_k(logits, rows, columns, width, shares, ids);
}

void sx_choose(float* logits, int64_t rows, int64_t columns, const int64_t* context, int64_t committed,
               const int64_t* tokens, const int64_t* parents, float penalty, int64_t ngram, int64_t* chosen) {
  specextend::choose(logits, rows, columns, context, committed, tokens, parents, penalty, ngram, chosen);
}

void sx_attend(int64_t bf16, const void* q, int64_t heads, int64_t groups, int64_t nodes, int64_t dim, const void* keys,
               const void* values, int64_t by_head, int64_t by_row, int64_t total, int64_t own, const float* tree,
               float scale, void* out) {
  const specextend::Paths paths(tree, nodes, own);
  const int64_t seen = total - own;
  const auto run = [&]<typename T>(T*) {
    specextend::attend(static_cast<const T*>(q), 1, heads, groups, nodes, dim,
                       specextend::cache_of<T>(keys, values, by_head, by_row), &seen, own, tree, paths, nullptr,
                       {scale, 0}, static_cast<T*>(out));
  };
  bf16 ? run(static_cast<BFloat16*>(nullptr)) : run(static_cast<float*>(nullptr));
}

void sx_attend_causal(int64_t bf16, const void* q, int64_t q_by_head, int64_t q_by_node, int64_t heads, int64_t groups,
                      int64_t n, int64_t dim, const void* keys, const void* values, int64_t by_head, int64_t by_row,
                      int64_t total, float scale, float cap, int64_t window, void* out) {
  const auto run = [&]<typename T>(T*) {
    specextend::attend_causal(static_cast<const T*>(q), q_by_head, q_by_node, heads, groups, n, dim,
                              specextend::cache_of<T>(keys, values, by_head, by_row), total, {scale, cap}, window,
                              static_cast<T*>(out));
  };
  bf16 ? run(static_cast<BFloat16*>(nullptr)) : run(static_cast<float*>(nullptr));
}

}  // extern "C"
