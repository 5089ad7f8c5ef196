"""Operations of PyTorch in which the host waits for a device."""

import torch

_aten = torch.ops.aten

READS = {  # The device computes how large the result is, and the host has to know; or the host reads the number.
    _aten.nonzero,
    _aten.masked_select,
    _aten._local_scalar_dense,
    _aten.equal,
    _aten.bincount,
    _aten._unique,
    _aten._unique2,
    _aten.unique_dim,
    _aten.unique_consecutive,
    _aten.unique_dim_consecutive,
}
INDEXING = {_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_}  # by a mask: the same
