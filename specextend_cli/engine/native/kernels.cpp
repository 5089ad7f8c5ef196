// torch.ops.specextend: the operators of prefill and decoding for CPUs with AVX-512, in bfloat16 or float32.
#include <torch/library.h>

#include "attention.h"
#include "int4_matmul.h"
#include "prompt.h"

TORCH_LIBRARY(specextend, library) {
  library.def("int4_matmul(Tensor x, Tensor codes, Tensor scales) -> Tensor");
  library.def(
      "attend(Tensor q, Tensor own_keys, Tensor own_values, Tensor keys, Tensor values, Tensor tree, Tensor? hidden, "
      "float scale) -> Tensor");
  library.def(
      "attend_causal(Tensor q, Tensor own_keys, Tensor own_values, Tensor keys, Tensor values, float scale) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(specextend, CPU, library) {
  library.impl("int4_matmul", specextend::int4_matmul);
  library.impl("attend", specextend::attend);
  library.impl("attend_causal", specextend::attend_causal);
}
