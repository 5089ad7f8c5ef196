"""Loading EAGLE heads in every layout that `head_config` reads.

What a checkpoint is, its tensors say; a configuration that contradicts them is refused, and so are unknown tensors: a
head loaded wrongly would draft at random. Programs give two meanings to the numbers of layers, to `norm_output`, and to
keys that are left out. The trainer's is that by which the head drafts what the target says: the readings draft along a
short text, several tokens deep, because what a head is fed shows from the second token on.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers.initialization import no_init_weights

from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.packed import round_to_four_bit
from specextend_cli.engine.step import Step
from specextend_cli.models.checkpoint import checked_weights, damaged
from specextend_cli.models.head_config import PublishedHead, renamed, usable_head
from specextend_cli.models.tokens import TextEncoder

DEPTH = 3  # tokens that are drafted at every position
MARGIN = 0.02  # of agreement by which another reading has to be better than the first: chance alone makes half of it
LEAST = 0.1
"""The share of agreement that any head has with its own target: 24% for the small one that is shipped."""
_COMPARED = 4096  # rows of two matrices that are compared at a time
_IGNORED = re.compile(r"(^|\.)(rotary_emb\.inv_freq|verifier_(norm|lm_head)\.weight|t2d)$")

_WARM_UP = """\
The river has been gauged at the old bridge since 1904. In most years the water is highest in April, when the snow of \
the upper valley melts, and lowest in September. Twice it rose above the quay: in 1926, after eleven days of rain, and \
in 1978, when the dam upstream had to be opened. The committee was asked to find out what a third flood would cost. It \
visited the mills, the railway station and the school, spoke with forty residents, and read the accounts of both \
insurers. Its report, published in March, recommends a second channel east of the town, to be paid for by the county \
over twelve years. The council will vote on the plan in June."""


class Loaded(NamedTuple):
    """A head, and the ways in which its configuration can be read, its own first; `probe` decides between them."""

    head: EagleHead
    readings: tuple[HeadConfig, ...]


def load_eagle(directory: Path, target: LanguageModel, name: str) -> EagleHead:
    """The head in `directory`; `name` is what the user calls the preset. ModelError as `load_head`.

    Where its configuration can be read in several ways, all continue a short text, and the best one is kept. What
    speaks against it is in its `remarks`.
    """
    head, readings = load_head(directory, target, name=name)
    if len(readings) > 1:
        tokens = TextEncoder.of(Path(target.model.name_or_path)).encode(_WARM_UP)
        share = probe(head, readings, target, torch.tensor(tokens, device=target.device))
        if share < LEAST:
            head.remarks += (f"whichever way its configuration is read, it agrees with the target on {share:.0%} only",)
    round_to_four_bit(head)
    return head


def load_head(directory: Path, target: LanguageModel, *, name: str = "NAME") -> Loaded:
    """The head in `directory` for `target`, on its device. Nothing is fetched; pickles are read for tensors only.

    It computes in the target's number format, because the two may share modules. `name` is the preset's. ModelError:
    damaged or missing weights, a head of another target, an unknown layout.
    """
    said, tensors = PublishedHead.read(directory), _read_tensors(directory, name)
    with usable_head(directory):
        config = said.config({key: tensor.shape for key, tensor in tensors.items()})
        if config.generation == 1:  # its output layer is the target's
            tensors.pop("lm_head.weight", None)
        _check_target(said, config, tensors, target)
        config = _shared(config, tensors, target)
        readings = said.readings(config, target.layers)
        with no_init_weights():  # random weights would take seconds for a large vocabulary
            head = EagleHead(readings[0], target)
        _fill(head, tensors, target.vocabulary)
    head = head.to(device=target.device, dtype=target.dtype)
    return Loaded(head.eval().requires_grad_(False), readings)


def _read_tensors(directory: Path, name: str) -> dict[str, Tensor]:
    """The tensors by their names here. ModelError: damaged or missing weights."""
    tensors: dict[str, Tensor] = {}
    try:
        for file in checked_weights(directory, name):
            if file.suffix == ".safetensors":
                tensors.update(load_file(file))
            else:
                tensors.update(torch.load(file, map_location="cpu", weights_only=True))
    except (SafetensorError, pickle.UnpicklingError, EOFError, RuntimeError, OSError, TypeError, ValueError) as error:
        raise damaged(directory, str(error).partition("\n")[0], name) from error
    if not all(isinstance(key, str) and isinstance(tensor, torch.Tensor) for key, tensor in tensors.items()):
        raise damaged(directory, "it holds other things than tensors by name", name)
    return {renamed(key): tensor for key, tensor in tensors.items() if not _IGNORED.search(key)}


def _check_target(said: PublishedHead, config: HeadConfig, tensors: dict[str, Tensor], target: LanguageModel) -> None:
    """ValueError unless the head reads this target's states, embeds its tokens and writes them."""
    width, theirs = int(target.config.hidden_size), target.vocabulary
    embeds, writes = config.embedding, config.draft_vocab
    if config.target_hidden != width:
        raise ValueError(f"it reads states of {config.target_hidden} numbers, the target's have {width}")
    if (embeds or said.vocab_size) < theirs or (not embeds and said.vocab_size != theirs):
        raise ValueError(f"config.json says vocab_size {said.vocab_size}, the target has {theirs:,} tokens")
    if not writes and config.generation == 3 and said.draft_vocab_size not in (None, theirs):
        raise ValueError(f"config.json says draft_vocab_size {said.draft_vocab_size}, and it has no lm_head")
    if writes not in (0, theirs) and "draft_to_target" not in tensors:
        raise ValueError(f"its lm_head has {writes} rows, the target {theirs}, and no d2t joins them")
    if config.hidden != width and not (embeds and writes):
        raise ValueError(f"it has no embedding or no lm_head of its own, and the target's have {width} columns")


def _shared(config: HeadConfig, tensors: dict[str, Tensor], target: LanguageModel) -> HeadConfig:
    """The configuration without the matrices that are copies of the target's, which are taken out of the tensors."""
    if _is_copy(tensors.get("embedding.weight"), target.model.get_input_embeddings()):
        del tensors["embedding.weight"]
        config = replace(config, embedding=0)
    if _is_copy(tensors.get("lm_head.weight"), target.model.get_output_embeddings()):
        del tensors["lm_head.weight"]
        config = replace(config, draft_vocab=0)
    return config


def _is_copy(own: Tensor | None, theirs: Any) -> bool:
    """Whether a matrix of the head is one of the target's: DeepSpec's have both, a gigabyte for a large vocabulary."""
    weight, bias = getattr(theirs, "weight", None), getattr(theirs, "bias", None)
    if own is None or bias is not None or not isinstance(weight, Tensor) or own.shape != weight.shape:
        return False
    rows = zip(own.split(_COMPARED), weight.split(_COMPARED), strict=True)
    return all(torch.equal(some.to(other), other) for some, other in rows)


def _check_vocabulary(offsets: Tensor, vocabulary: int) -> None:
    """ValueError where d2t does not name distinct tokens of the `vocabulary`."""
    named = offsets.long() + torch.arange(len(offsets))
    if int(named.min()) < 0 or int(named.max()) >= vocabulary:
        raise ValueError("d2t names tokens that the target does not have")
    if len(named.unique()) < len(named):
        raise ValueError("d2t names a token twice")


def _fill(head: EagleHead, tensors: dict[str, Tensor], vocabulary: int) -> None:
    """Load the tensors. ValueError where one is missing, has another shape, is not known, or of codes (quantized)."""
    expected, config = head.state_dict(), head.config
    for key, tensor in tensors.items():
        if key not in expected:
            raise ValueError(f"it has a tensor that by its config.json no such head has: {key}")
        if tensor.shape != expected[key].shape:
            raise ValueError(f"its {key} is {list(tensor.shape)}, by config.json {list(expected[key].shape)}")
        if tensor.is_floating_point() != expected[key].is_floating_point() or tensor.dtype.itemsize < 2:
            raise ValueError(f"its {key} is of {tensor.dtype} numbers")
    if "draft_to_target" in tensors:
        _check_vocabulary(tensors["draft_to_target"], vocabulary)
    modules = {"embedding.": config.embedding, "lm_head.": config.draft_vocab}
    shared = ("draft_to_target", *(module for module, rows in modules.items() if not rows))
    if missing := [key for key in expected if key not in tensors and not key.startswith(shared)]:
        raise ValueError(f"by its config.json {len(missing)} tensors are missing, {missing[0]} first")
    head.load_state_dict(tensors, strict=False)


def probe(head: EagleHead, readings: Sequence[HeadConfig], target: LanguageModel, tokens: Tensor) -> float:
    """Read `head` in that of the `readings` which agrees best with the target on `tokens` [n]; the agreement.

    The first is kept unless another is better by `MARGIN`. Nothing here is random.
    """
    shares = agreements(head, readings, target, tokens)
    best = max(range(len(readings)), key=lambda index: (shares[index], -index))
    best = best if shares[best] >= shares[0] + MARGIN else 0
    head.read_as(readings[best])
    return shares[best]


@torch.inference_mode()
def agreements(
    head: EagleHead, readings: Sequence[HeadConfig], target: LanguageModel, tokens: Tensor
) -> tuple[float, ...]:
    """For each reading, how often the most likely token of a draft is the target's, as a share from 0 to 1.

    Drafts are fed the text's tokens, so a wrong one does not spoil those behind it.
    """
    layers = sorted({layer for reading in readings for layer in reading.feature_layers})
    positions = torch.arange(len(tokens), device=tokens.device)
    out = target.forward(tokens, positions, target.new_cache(len(tokens)), feature_layers=layers)
    assert out.features is not None
    states = dict(zip(layers, out.features.split(head.config.target_hidden, -1), strict=True))
    chosen, shares = out.logits.argmax(-1), []
    for reading in readings:
        head.read_as(reading)
        features = torch.cat([states[layer] for layer in reading.feature_layers], -1)
        shares.append(_agreement(head, features.to(head.fc.weight.dtype), tokens, chosen))
    return tuple(shares)


def _agreement(head: EagleHead, features: Tensor, tokens: Tensor, chosen: Tensor) -> float:
    """For the target's states [n, ..] and choices [n] of the next token."""
    rows = len(tokens) - 1
    device, cache = tokens.device, head.new_cache(DEPTH * rows)
    backend, states = backend_for(device, "reference"), head.fuse(features[:rows])
    mask = torch.ones(rows, rows, dtype=torch.bool, device=device).tril()
    agreed = []
    for depth in range(DEPTH):
        # Row i has read the text up to token i + 1 + depth, the last `depth` of them behind its own states.
        read = slice(1 + depth, 1 + depth + rows)
        positions = torch.arange(depth, depth + rows, device=device)
        out = head.run(Step(tokens[read], positions, cache, tree_mask=mask, backend=backend, states=states[:rows]))
        assert out.state is not None
        agreed.append(head.vocabulary[out.logits.argmax(-1)] == chosen[read])
        states, rows = out.state, rows - 1
        mask = torch.cat((mask[:rows], torch.eye(rows, dtype=torch.bool, device=device)), 1)
    return sum(float(level.float().mean()) for level in agreed) / DEPTH
