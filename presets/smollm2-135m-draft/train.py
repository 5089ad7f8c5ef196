"""Train an EAGLE-3 draft head for a Llama target on documents, and count the n-gram table beside it.

    python presets/smollm2-135m-draft/train.py documents.jsonl.gz -o my-head --minutes 60
    specextend summarize report.pdf --draft-head my-head

The target writes answers about excerpts of the documents; a head is distilled to draft them, by training-time test
(EAGLE-3, arXiv 2503.01840, section 3); what followed up to three tokens in the answers is counted. `-o` gets
config.json and model.safetensors in the layout that SafeAILab published, ngrams.npz, and training/, by which a run that
was interrupted goes on when it is started again with the same arguments. With more --minutes it is trained further.

The head in this directory was made from answers.npz, which has the positions of the excerpts in the corpus, not their
text: `--answers answers.npz` with that corpus asks the target for no more.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from files import save_head, table_file
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import DynamicCache

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.batch import BatchRequest, decode_batch, slots_for
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.step import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import InputError, ModelError, SpecextendError, UsageError
from specextend_cli.models.head_config import default_layers
from specextend_cli.models.ngram_table import FILE, read_arrays

COPIES, TEMPERATURE = 4, 0.7  # answers to a prompt; the first is decoded as in use, the others at this temperature
PROMPTS_AT_ONCE, CACHE_BYTES = 8, 4 << 30  # of a batch that the target answers
HELD_OUT = 6  # prompts whose answers the head is measured on
TEXT, QUOTES = 0.15, 0.2  # shares of the draws that are plain text and quotations; answers have the rest
TEXTS, QUOTATIONS, HELD_QUOTATIONS = 64, 512, 8  # plain texts at least, quotations, and those that are held out
QUOTED, PASSAGE = 384, (4, 96)  # tokens of a quotation, and of each passage in it
LEADS = (" ", "\n", "\n\n", " The report says: ", ' It states that "', "\nAccording to the text, ", "; ", " ... ")
ANSWER_WEIGHT = 20  # of an answer's token in the choice of the draft's vocabulary; a document's is 1
STATE_BYTES = 8 << 30  # of the target's states on disk; others are computed whenever they are needed
DECAY = 0.5  # the probability of each further step of the unroll; it weighs the depths, and halves the cost
WARMUP = 0.03  # the share of the run over which the rate rises; it falls to zero by a cosine
LIKELY, OTHERS = 2048, 1024  # tokens that the loss is computed over: the likeliest, and a sample of the rest
RATE, MUON_RATE, WEIGHT_DECAY = 4e-4, 2.5, 0.01  # Muon's rate is this many times AdamW's
MULTIPLE = 64  # of rows: oneDNN prepares a kernel for each size of matrices, which takes as long as the product


@dataclass(frozen=True)
class Settings:
    """`minutes` or `steps` (0: any number) bound the training, that of interrupted runs included.

    The target answers `prompts` prompts around excerpts of `lengths` tokens by at most `new_tokens` tokens. The head
    writes `vocabulary` tokens and is unrolled for `unroll` steps. A step of the optimizer sums the gradients of `batch`
    groups of samples of at most `rows` rows of loss each. Every `pause` seconds the head is measured, and kept.
    """

    minutes: float = 60.0
    steps: int = 0
    prompts: int = 1500
    lengths: tuple[int, ...] = (512, 1024, 2048)
    new_tokens: int = 192
    vocabulary: int = 12288
    unroll: int = 5
    batch: int = 1
    rows: int = 768
    pause: float = 180.0
    seed: int = 0


@dataclass(frozen=True)
class Frame:
    """The prompt around a document, as token ids; how answers are sampled and end; what introduces quotations."""

    before: list[int]
    after: list[int]
    ends: tuple[int, ...]
    sampling: Sampling
    leads: tuple[list[int], ...] = ()

    def around(self, excerpt: Sequence[int]) -> list[int]:
        """The whole prompt."""
        return [*self.before, *excerpt, *self.after]


@dataclass(frozen=True)
class Sample:
    """Tokens [n] of a prompt and what follows. Row i of a head reads state i and token i + 1, and predicts token i + 2.

    The loss counts rows from `start` on. `output` is where an answer begins, which sampling penalties apply to.
    """

    tokens: list[int]
    start: int = 0
    output: int | None = None

    @classmethod
    def answer(cls, prompt: Sequence[int], answer: Sequence[int]) -> Sample:
        """All of the answer is predicted."""
        return cls([*prompt, *answer], len(prompt) - 2, len(prompt))

    @property
    def rows(self) -> int:
        """Rows of loss."""
        return len(self.tokens) - 1 - self.start


# Excerpts of documents, and what is made of them


Documents = Sequence[Sequence[int]]
Excerpt = tuple[int, int, int]  # the number of its document, its first token there, its length


def read_corpus(path: Path) -> list[str]:
    """The texts of a .jsonl or .jsonl.gz file."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return [json.loads(line)["text"] for line in data.splitlines() if line.strip()]
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is no corpus", why=str(error), fix='lines of {"text": …}') from error


def excerpts(documents: Documents, usable: range, lengths: Sequence[int], count: int, seed: int) -> list[Excerpt]:
    """`count` excerpts, shortest first, at random positions; no document is used again before each was used once."""
    order, found = random.Random(seed), list[Excerpt]()
    long_enough = [number for number in usable if len(documents[number]) >= min(lengths)]
    while long_enough and len(found) < count:
        for number in order.sample(long_enough, min(len(long_enough), count - len(found))):
            size = len(documents[number])
            length = order.choice([length for length in lengths if length <= size])
            found.append((number, order.randrange(size - length + 1), length))
    return sorted(found, key=lambda excerpt: excerpt[2])


def quotations(
    documents: Documents, usable: range, frame: Frame, lengths: Sequence[int], count: int, seed: int
) -> list[Sample]:
    """Prompts answered by passages of their excerpts, shorter excerpts more often.

    The target's own answers are mostly its own words: a head trained on them alone does not learn to attend to the
    document. No generation is needed, as one forward of the target gives its distribution at every token.
    """
    lengths = [length for length in lengths if any(len(documents[number]) >= length for number in usable)]
    order, samples = random.Random(seed), list[Sample]()
    drawn = order.choices(lengths, [1 / length for length in lengths], k=count)
    for length in lengths:
        for number, start, _ in excerpts(documents, usable, (length,), drawn.count(length), seed + length):
            excerpt, passages = documents[number][start : start + length], list[int]()
            while len(passages) < QUOTED:
                passages += order.choice(frame.leads) if frame.leads else ()
                size = round(math.exp(order.uniform(*map(math.log, PASSAGE))))
                at = order.randrange(max(len(excerpt) - size, 1))
                passages += excerpt[at : at + size]
            samples.append(Sample.answer(frame.around(excerpt), passages[: QUOTED - 1]))
    order.shuffle(samples)
    return samples


# The target's answers


class Answers:
    """The target's answers about excerpts, in an .npz file: where the excerpts are, and what was written about them."""

    def __init__(self, path: Path, documents: Documents) -> None:
        self.path, self.documents = path, documents
        self.found: list[tuple[Excerpt, list[int]]] = []
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            arrays = read_arrays(self.path, ("corpus", "places", "sizes", "tokens"), most=1 << 30)
        except ValueError as error:
            raise InputError(f"{self.path} holds no answers", why=str(error), fix="another --answers FILE") from error
        if arrays["corpus"].tolist() != digest(self.documents):
            why, fix = "they are about other documents", "the corpus that they were made with"
            raise UsageError(f"the answers in {self.path} cannot be used", why=why, fix=fix)
        written = np.split(arrays["tokens"], arrays["sizes"].cumsum()[:-1])
        for (number, start, length), answer in zip(arrays["places"].reshape(-1, 3).tolist(), written, strict=True):
            self.found.append(((number, start, length), answer.tolist()))

    def samples(self, usable: range, frame: Frame) -> list[Sample]:
        """The answers about documents in the range `usable`."""
        return [
            Sample.answer(frame.around(self.documents[number][start : start + length]), answer)
            for (number, start, length), answer in self.found
            if number in usable
        ]

    def ask(self, lm: LanguageModel, excerpts: Iterable[Excerpt], frame: Frame, settings: Settings) -> None:
        """Have the target answer what was not answered, COPIES times each; every batch is saved."""
        answered = {excerpt for excerpt, _ in self.found}
        missing = [excerpt for excerpt in excerpts if excerpt not in answered]
        for first in range(0, len(missing), PROMPTS_AT_ONCE):
            batch = [excerpt for excerpt in missing[first : first + PROMPTS_AT_ONCE] for _ in range(COPIES)]
            requests = []
            for at, (number, start, length) in enumerate(batch):
                prompt = frame.around(self.documents[number][start : start + length])
                sampling = frame.sampling
                if copy := at % COPIES:
                    # Hashes of integers are the same in every process.
                    seed = hash((settings.seed, copy, *prompt)) & (2**31 - 1)
                    sampling = replace(sampling, temperature=TEMPERATURE, seed=seed)
                requests.append(BatchRequest(prompt, Stop(settings.new_tokens, frozenset(frame.ends)), sampling))
            longest = max(len(request.prompt) for request in requests) + settings.new_tokens
            written: list[list[int]] = [[] for _ in batch]
            slots = min(len(batch), slots_for(lm, longest, CACHE_BYTES))
            for temperature in {request.sampling.temperature for request in requests}:  # a batch is sampled alike
                alike = [at for at, request in enumerate(requests) if request.sampling.temperature == temperature]
                for number, event in decode_batch(lm, [requests[at] for at in alike], slots=slots):
                    if isinstance(event, Accepted):
                        written[alike[number]].extend(event.tokens)
            # The last token of an answer is no input of the head.
            self.found += [(excerpt, answer[:-1]) for excerpt, answer in zip(batch, written, strict=True)]
            self.save()
            report(f"the target has answered {first + len(batch) // COPIES} of {len(missing)} prompts")

    def save(self) -> None:
        """Replace the file, atomically."""
        partial = self.path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez_compressed(
                file,
                corpus=np.array(digest(self.documents), np.int16),
                places=np.array([excerpt for excerpt, _ in self.found], np.int64).reshape(-1),
                sizes=np.array([len(answer) for _, answer in self.found], np.int64),
                tokens=np.array([token for _, answer in self.found for token in answer], np.int32),
            )
        partial.replace(self.path)


def digest(documents: Documents) -> list[int]:
    """A digest of the documents by the first 64 tokens of each, a number a byte."""
    openings = sha256()
    for document in documents:
        opening = np.asarray(document[:64], dtype="<i8")
        openings.update(len(opening).to_bytes(8, "little") + opening.tobytes())
    return list(openings.digest())


# What the target reads and says


@dataclass(frozen=True)
class Target:
    """The target at samples: the states that a head reads, and the logits that it learns. States are kept on disk."""

    lm: LanguageModel
    sampling: Sampling
    directory: Path

    @property
    def precision(self) -> torch.autocast:
        """A context in which the head computes in bfloat16 where the target does."""
        return torch.autocast(self.lm.device.type, dtype=torch.bfloat16, enabled=self.lm.dtype == torch.bfloat16)

    def states(self, group: Sequence[Sample]) -> list[Tensor]:
        """The states [n, width] at the tokens of samples behind one prompt: the head's layers', then the last one's."""
        shared = group[0].start + 1
        key = sha256(np.concatenate([[-1, *sample.tokens] for sample in group]).astype("<i8").tobytes()).hexdigest()
        path = self.directory / f"{key[:32]}.pt"
        if path.exists():
            parts = torch.load(path, map_location=self.lm.device, weights_only=True)
        else:
            cache = self.lm.new_cache(max(len(sample.tokens) for sample in group))
            parts = [self._read(group[0].tokens[:shared], 0, cache)]
            cache.commit()
            for sample in group:
                parts.append(self._read(sample.tokens[shared:], shared, cache))
                cache.rollback()
            self._keep(path, parts)
        return [torch.cat((parts[0], part)) for part in parts[1:]]

    def _read(self, tokens: Sequence[int], start: int, cache: KVCache) -> Tensor:
        ids = torch.tensor(tokens, device=self.lm.device)
        positions = torch.arange(start, start + len(tokens), device=self.lm.device)
        layers = (*default_layers(self.lm.layers), self.lm.layers)
        features = self.lm.forward(ids, positions, cache, logits_to_keep=1, feature_layers=layers).features
        assert features is not None
        return features.clone()  # inference tensors cannot take part in a backward pass; copies can

    def _keep(self, path: Path, parts: Sequence[Tensor]) -> None:
        kept = sum(file.stat().st_size for file in self.directory.iterdir())
        if kept + sum(part.nbytes for part in parts) <= STATE_BYTES:
            partial = path.with_suffix(".partial")
            torch.save(parts, partial)
            partial.replace(path)

    @torch.no_grad()
    def logits(self, group: Sequence[Sample], states: Sequence[Tensor]) -> Tensor:
        """The logits [rows of loss, vocabulary] of samples behind one prompt; after penalties in answers."""
        # The state at the next position predicts what the head predicts at this one.
        read = [some[sample.start + 1 : len(sample.tokens)] for sample, some in zip(group, states, strict=True)]
        lengths = list(map(len, read))
        output: Any = self.lm.model.get_output_embeddings()
        logits: Tensor = output(padded(torch.cat(read)[:, -self.lm.config.hidden_size :]))
        for sample, some in zip(group, logits[: sum(lengths)].split(lengths), strict=True):
            if sample.output is not None:
                some.copy_(self._penalized(some, sample.tokens, sample.output, sample.start + 2))
        return logits

    def _penalized(self, logits: Tensor, tokens: list[int], output: int, first: int) -> Tensor:
        """Each row with the answer up to it as context: rows from token `first` on are a chain of a draft tree."""
        sampler = Sampler(replace(self.sampling, temperature=0.0), logits.device)
        sampler.commit(torch.tensor([tokens[output:first]], dtype=torch.long, device=logits.device))
        chain = tokens[first - 1 :]
        return sampler.ranking(logits, DraftTree(chain, [0, *range(len(chain) - 1)], [1.0] * len(chain)))


# The head


def choose_vocabulary(
    lm: LanguageModel, answers: Sequence[Sample], documents: Documents, size: int, ends: Sequence[int]
) -> Tensor:
    """The tokens that occur most often, and those that end an answer, ascending, [size]."""
    counts = torch.zeros(lm.vocabulary, dtype=torch.long)
    for weight, texts in ((ANSWER_WEIGHT, [one.tokens[one.output :] for one in answers]), (1, documents)):
        for tokens in texts:
            counts += weight * torch.tensor(tokens, dtype=torch.long).bincount(minlength=lm.vocabulary)
    counts[list(ends)] = counts.sum() + 1
    return counts.argsort(descending=True, stable=True)[:size].sort().values


@torch.no_grad()
def new_head(lm: LanguageModel, vocabulary: Tensor, max_position: int) -> EagleHead:
    """A head in float32 that starts near the target's own prediction of the token just written.

    It has the target's last layer, final norm and output rows, and reads the target's late state; training teaches it
    the next token. ModelError unless the target is a Llama, whose parts the head has.
    """
    target, model = lm.config, lm.model
    if target.model_type != "llama":
        why = "this program begins with a Llama's last layer"
        raise ModelError(f"no head for {target.model_type} is trained here", why=why, fix="speculators or SpecForge")
    config = HeadConfig(
        generation=3,
        hidden=target.hidden_size,
        target_hidden=target.hidden_size,
        heads=target.num_attention_heads,
        kv_heads=target.num_key_value_heads,
        head_dim=target.head_dim,
        intermediate=target.intermediate_size,
        layers=1,
        embedding=lm.vocabulary,
        draft_vocab=len(vocabulary),
        feature_layers=default_layers(lm.layers),
        eps=target.rms_norm_eps,
        # With a larger base, half of the dimensions rotate little over a thousand tokens.
        rope={"rope_type": "default", "rope_theta": max(float(target.rope_parameters["rope_theta"]), 1e6)},
        max_position=max_position,
    )
    head, decoder = EagleHead(config), model.get_decoder()
    first: Any = head.layers[0]
    for parameter in head.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    head.draft_to_target.copy_(vocabulary - torch.arange(len(vocabulary)))
    head.embedding.weight.copy_(model.get_input_embeddings().weight)
    head.embedding.requires_grad_(False)
    head.lm_head.weight.copy_(model.get_output_embeddings().weight[vocabulary.to(lm.device)])
    head.fc.weight.mul_(0.1)
    head.fc.weight[:, -config.hidden :] += torch.eye(config.hidden)
    head.norm.load_state_dict(decoder.norm.state_dict())
    last = decoder.layers[-1].state_dict()
    for name, tensor in first.state_dict().items():
        source = last["input_layernorm.weight" if name == "hidden_norm.weight" else name]
        # The projections to queries, keys and values read an embedding first, then a state, as the target does.
        tensor[..., -source.shape[-1] :].copy_(source)
    return head.to(lm.device)


# Training-time test: the head is trained on its own outputs, as it drafts


@dataclass(frozen=True)
class Rows:
    """The rows of samples behind one prompt: the prompt's, then the rows of loss, one sample after another, padded.

    `tokens` [p + r] follow each row; `features` [p + r, width] are the target's there. `numbers` [r] counts the rows of
    loss within their sample; padding has -1. In step k, row i has a prediction if its number is at least k.
    """

    tokens: Tensor
    features: Tensor
    numbers: Tensor

    @classmethod
    def of(cls, samples: Sequence[Sample], states: Sequence[Tensor], width: int) -> Rows:
        """Of samples with `states`, of which a head reads the first `width` numbers."""
        start, device = samples[0].start, states[0].device
        texts = [torch.tensor(sample.tokens, device=device) for sample in samples]
        # The last token of a sample is only predicted.
        read = [some[start : len(text) - 1, :width] for some, text in zip(states, texts, strict=True)]
        numbers = [torch.arange(sample.rows, device=device) for sample in samples]
        return cls(
            torch.cat((texts[0][1 : 1 + start], padded(torch.cat([text[1 + start :] for text in texts])))),
            torch.cat((states[0][:start, :width], padded(torch.cat(read)))).float(),
            padded(torch.cat(numbers), -1),
        )


def padded(rows: Tensor, value: int = 0) -> Tensor:
    """Rows [r, ...] with rows of `value` behind them."""
    return torch.cat((rows, rows.new_full((-len(rows) % MULTIPLE, *rows.shape[1:]), value)))


def unroll(head: EagleHead, rows: Rows, steps: int) -> list[Tensor]:
    """The inputs of `head.lm_head` in every step, each [r, hidden].

    Row i of step 0 joins the target's state at position i with token i + 1 and predicts token i + 2. Row i of step k
    reads, instead of the target's state, the head's own output of step k - 1 at row i - 1. Every step computes all
    rows, so that sizes stay equal, though the first k rows of a sample mean nothing in step k.
    """
    prompt = len(rows.tokens) - len(rows.numbers)
    cache = DynamicCache()  # the keys and values of all steps, with their gradients
    positions = torch.arange(prompt, device=rows.tokens.device)
    states, outputs = head.fuse(rows.features), []
    if prompt:
        seen, read = ChainAttention(rows.numbers, 0), states[:prompt]
        head.remember(Step(rows.tokens[:prompt], positions, cache, backend=seen, states=read))
    embeddings, states = head.embedding(rows.tokens[prompt:]), states[prompt:]
    for step in range(steps):
        context = ForwardContext(backend=ChainAttention(rows.numbers, step))
        normed, states = head.advance(embeddings, states, prompt + rows.numbers.clamp(min=0), cache, context)
        outputs.append(normed)
        states = states.roll(1, 0)
    return outputs


@dataclass(frozen=True)
class ChainAttention:
    """What a chain of drafts sees, as a back end of attention for the rows of loss, `numbers` [r], in `step`.

    A row of step k sees the prompt, the rows of step 0 of its own sample that are at least k places before it, and of
    each later step m the one row that led to it, k - m places before it.
    """

    numbers: Tensor
    step: int

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        """q [1, H, r, d]; k, v [1, H_kv, prompt + r * (step + 1), d] -> [1, H, r, d]."""
        rows = len(self.numbers)
        sample, row = (self.numbers == 0).cumsum(0), torch.arange(rows, device=q.device)
        ago = row[:, None] - row
        prompt = ago.new_ones(rows, k.shape[2] - (self.step + 1) * rows, dtype=torch.bool)
        later = [ago == self.step - m for m in range(1, self.step + 1)]
        seen = torch.cat((prompt, (sample[:, None] == sample) & (ago >= self.step), *later), 1)
        return scaled_dot_product_attention(q, k, v, seen, scale=scale, enable_gqa=True)


# Loss and measurement


def loss_of(target: Target, head: EagleHead, samples: Sequence[Sample], states: Sequence[Tensor], steps: int) -> Tensor:
    """Cross-entropy to the target's distribution over a part of the draft's vocabulary, summed over the steps.

    The output head is most of a small draft. The tokens to which the target gives most probability are used exactly,
    others are represented by a random sample with weights: that estimates their sum without bias. Probability that the
    target gives to tokens outside the draft's vocabulary counts nothing.
    """
    probabilities = target.logits(samples, states).softmax(-1, dtype=torch.float32)[:, head.vocabulary]
    tokens, weights = candidates(probabilities)
    probabilities, output = probabilities[:, tokens] * weights, head.lm_head.weight[tokens]
    rows = Rows.of(samples, states, head.fc.in_features)
    total = torch.zeros((), device=probabilities.device)
    with target.precision:
        for step, read in enumerate(unroll(head, rows, steps)):
            logits = linear(read, output).float()
            losses = probabilities.sum(-1) * (logits + weights.log()).logsumexp(-1) - (probabilities * logits).sum(-1)
            total = total + losses[rows.numbers >= step].mean()
    return total


def candidates(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of [rows, draft vocabulary] that the loss is computed over, and how many each stands for."""
    size = probabilities.shape[1]
    if size <= LIKELY + OTHERS:
        return torch.arange(size, device=probabilities.device), probabilities.new_ones(size)
    order = probabilities.sum(0).argsort(descending=True)
    drawn = torch.randperm(size - LIKELY)[:OTHERS].to(probabilities.device)
    weights = probabilities.new_ones(LIKELY + OTHERS)
    weights[LIKELY:] = (size - LIKELY) / OTHERS
    return torch.cat((order[:LIKELY], order[LIKELY:][drawn])), weights


@torch.no_grad()
def measure(target: Target, head: EagleHead, groups: Iterable[Sequence[Sample]], steps: int) -> list[float]:
    """How many chains of drafts the target would accept up to each depth; their sum and 1 are the accepted length.

    It is an estimate: every depth is fed the sample's own tokens, not the head's drafts.
    """
    accepted, starts = torch.zeros(steps), 0
    for group in groups:
        states = target.states(group)
        likeliest = target.logits(group, states).argmax(-1)
        rows = Rows.of(group, states, head.fc.in_features)
        # Chains begin where as many rows of the same sample follow.
        chain = (rows.numbers >= 0) & (rows.numbers.roll(1 - steps) == rows.numbers + steps - 1)
        starts += int(chain.sum())
        with target.precision:
            for step, read in enumerate(unroll(head, rows, steps)):
                hit = head.vocabulary[head.lm_head(read).argmax(-1)] == likeliest
                chain &= hit.roll(-step)
                accepted[step] += chain.sum().cpu()
    return (accepted / max(starts, 1)).tolist()


# The run


class Trainer:
    """A head and its optimizers, in a file so that a run can be interrupted: `step` steps were done in `seconds`.

    Muon trains the matrices of the layers, AdamW the output layer and the norms.
    """

    def __init__(self, head: EagleHead, checkpoint: Path) -> None:
        self.head, self.checkpoint = head, checkpoint
        self.step, self.seconds, self.best = 0, 0.0, 0.0
        named = [(name, one) for name, one in head.named_parameters() if one.requires_grad]
        inner = [one for name, one in named if one.ndim == 2 and not name.startswith("lm_head.")]
        outer = [one for name, one in named if one.ndim != 2 or name.startswith("lm_head.")]
        muon = torch.optim.Muon(inner, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
        adam = torch.optim.AdamW(outer, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY, fused=True)
        self.optimizers: list[tuple[torch.optim.Optimizer, float]] = [(muon, MUON_RATE), (adam, 1.0)]
        if checkpoint.exists():
            state: dict[str, Any] = torch.load(checkpoint, map_location=head.fc.weight.device, weights_only=True)
            head.load_state_dict(state["head"])
            for (optimizer, _), its in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(its)
            self.step, self.seconds, self.best = state["progress"]
            report(f"going on from step {self.step}, {self.seconds / 60:.1f} minutes in")

    def update(self, rate: float) -> None:
        """Clip the gradients to a norm of 1, change the head by them, and forget them."""
        nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        for optimizer, scale in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = scale * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def share_done(self, settings: Settings) -> float:
        """The share of the run that is done."""
        steps = self.step / settings.steps if settings.steps else 0.0
        return min(max(self.seconds / (60 * settings.minutes), steps), 1.0)

    def save(self) -> None:
        """Replace the checkpoint, atomically."""
        partial, optimizers = self.checkpoint.with_suffix(".partial"), [one.state_dict() for one, _ in self.optimizers]
        progress = (self.step, self.seconds, self.best)
        torch.save({"head": self.head.state_dict(), "optimizers": optimizers, "progress": progress}, partial)
        partial.replace(self.checkpoint)


def distill(
    lm: LanguageModel,
    documents: Documents,
    frame: Frame,
    settings: Settings,
    directory: Path,
    known: Path | None = None,
) -> Trainer:
    """Train a head on tokenized documents, and write it and an n-gram table to `directory`.

    With answers `known`, the target is asked only for those that are held out. InputError: too little text. UsageError:
    the answers there are about other documents.
    """
    work, lengths, seed = directory / "training", settings.lengths, settings.seed
    (work / "states").mkdir(parents=True, exist_ok=True)
    usable = [number for number, document in enumerate(documents) if len(document) >= min(lengths)]
    if len(usable) < 2:
        why = f"{len(usable)} documents have at least {min(lengths)} tokens, and one is kept for measuring"
        raise InputError("there is too little text", why=why, fix="more or longer documents, or shorter --lengths")
    border = usable[max(len(usable) // 20, 1)]
    held, training = range(border), range(border, len(documents))

    of_held, of_training = Answers(work / "held_out.npz", documents), Answers(known or work / "answers.npz", documents)
    of_held.ask(lm, excerpts(documents, held, lengths, HELD_OUT, seed + 1), frame, settings)
    if known is None:
        of_training.ask(lm, excerpts(documents, training, lengths, settings.prompts, seed + 2), frame, settings)
    answers, held_answers = of_training.samples(training, frame), of_held.samples(held, frame)
    (directory / FILE).write_bytes(table_file((one.tokens, one.output or 0) for one in answers))

    plain = excerpts(documents, training, lengths, max(round(TEXT * len(answers)), TEXTS), seed + 3)
    texts = [list(documents[number][start : start + length]) for number, start, length in plain]
    kinds = (
        (1 - TEXT - QUOTES, answers),
        (TEXT, [Sample(text, max(len(text) - 1 - settings.rows, 0)) for text in texts]),
        (QUOTES, quotations(documents, training, frame, lengths, QUOTATIONS, seed + 6)),
    )
    held_quotations = quotations(documents, held, frame, lengths, HELD_QUOTATIONS, seed + 5)
    long_enough = [documents[number] for number in training if len(documents[number]) >= min(lengths)]
    vocabulary = choose_vocabulary(lm, answers, long_enough, settings.vocabulary, frame.ends)
    torch.manual_seed(seed)
    head = new_head(lm, vocabulary, max(lengths) + max(settings.new_tokens, QUOTED))
    trainer = Trainer(head, work / "checkpoint.pt")
    train(Target(lm, frame.sampling, work / "states"), trainer, kinds, (held_answers, held_quotations), settings)
    return trainer


def train(
    target: Target,
    trainer: Trainer,
    kinds: Sequence[tuple[float, Sequence[Sample]]],
    held_out: tuple[Sequence[Sample], Sequence[Sample]],
    settings: Settings,
) -> None:
    """Train on kinds of samples, each with its share of the draws; write the head that is best on those held out.

    Those are answers and quotations. InputError: no sample or no answer held out is as long as the unroll.
    """
    groups = [(share, by_prompt(samples, settings)) for share, samples in kinds]
    answers, quoted = (by_prompt(samples, settings) for samples in held_out)
    if not answers or not any(some for _, some in groups):
        why = f"{settings.unroll} steps of training do not fit into any answer or excerpt"
        raise InputError("there is too little text", why=why, fix="longer documents, or a smaller --unroll")
    head, order = trainer.head, random.Random(settings.seed + trainer.step)
    drawn = draws(groups, order)
    clock, next_pause = perf_counter() - trainer.seconds, trainer.seconds + settings.pause
    share = trainer.share_done(settings)
    while share < 1:
        depth = 1
        while depth < settings.unroll and order.random() < DECAY:
            depth += 1
        loss = 0.0
        for _ in range(settings.batch):
            group = next(drawn)
            part = loss_of(target, head, group, target.states(group), depth) / settings.batch
            torch.autograd.backward(part)
            loss += float(part.detach()) / depth
        trainer.update(RATE * schedule(share))
        trainer.seconds = perf_counter() - clock
        share = trainer.share_done(settings)
        if share == 1 or trainer.seconds >= next_pause:
            ours, in_quotations = (measure(target, head, some, settings.unroll) for some in (answers, quoted))
            score = 1 + (1 - QUOTES) * sum(ours) + QUOTES * sum(in_quotations)
            depths = ", ".join(f"{one:.2f}" for one in ours)
            report(
                f"step {trainer.step}, {trainer.seconds / 60:.1f} minutes: loss {loss:.3f}, accepted length "
                f"{1 + sum(ours):.3f} ({depths}), in quotations {1 + sum(in_quotations):.3f}"
            )
            if score > trainer.best:
                trainer.best = score
                save_head(head, trainer.checkpoint.parents[1], target_layers=target.lm.layers, dtype=torch.bfloat16)
            trainer.seconds = perf_counter() - clock
            trainer.save()
            next_pause = perf_counter() - clock + settings.pause


def by_prompt(samples: Iterable[Sample], settings: Settings) -> list[list[Sample]]:
    """Samples in groups behind one prompt, which is computed once, of at most `rows` rows of loss together.

    Those that are shorter than the unroll are left out.
    """
    groups: list[list[Sample]] = []
    last: dict[tuple[int, ...], tuple[list[Sample], int]] = {}
    for sample in samples:
        if sample.rows >= settings.unroll:
            prompt = tuple(sample.tokens[: sample.start + 1])
            group, size = last.get(prompt, ([], settings.rows))
            if size + sample.rows > settings.rows:
                group, size = [], 0
                groups.append(group)
            group.append(sample)
            last[prompt] = group, size + sample.rows
    return groups


def draws(kinds: Sequence[tuple[float, Sequence[list[Sample]]]], order: random.Random) -> Iterator[list[Sample]]:
    """Groups of samples of several kinds by their shares, without end; all of a kind are drawn before one returns."""

    def shuffled(groups: Sequence[list[Sample]]) -> Iterator[list[Sample]]:
        while True:
            yield from order.sample(groups, len(groups))

    shares = [share for share, groups in kinds if groups]
    streams = [shuffled(groups) for _, groups in kinds if groups]
    while True:
        yield next(order.choices(streams, shares)[0])


def schedule(share: float) -> float:
    """The factor of the rate when so much of the run is done."""
    if share < WARMUP:
        return (share + 1e-3) / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (share - WARMUP) / (1 - WARMUP)))


def report(line: str) -> None:
    """Say something on stderr."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Load the target, read the corpus, train."""
    default = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help=".jsonl or .jsonl.gz with a text in each line")
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory of the head")
    parser.add_argument("-m", "--model", default="smollm2-135m", help="preset whose target the head is for")
    parser.add_argument("--answers", type=Path, help="answers of an earlier run about the same corpus")
    parser.add_argument("--minutes", type=float, default=default.minutes, help="of training, after the answers")
    parser.add_argument("--steps", type=int, default=default.steps, help="of training at most; 0: any number")
    parser.add_argument("--prompts", type=int, default=default.prompts, help=f"that are answered, {COPIES} times each")
    parser.add_argument("--lengths", type=int, nargs="+", default=default.lengths, help="tokens of the excerpts")
    parser.add_argument("--vocabulary", type=int, default=default.vocabulary, help="tokens that the head writes")
    parser.add_argument("--unroll", type=int, default=default.unroll, help="steps of training-time test")
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, …")
    arguments = parser.parse_args()

    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.prompt_templates import PLACEHOLDERS
    from specextend_cli.models.sources import fetch
    from specextend_cli.models.tokens import TextEncoder
    from specextend_cli.runtime.devices import device_of, dtype_of
    from specextend_cli.runtime.loading import end_tokens, load_language_model
    from specextend_cli.runtime.runners import load_library, run_natively
    from specextend_cli.summarize.prompts import PromptBuilder

    preset, device = load_preset(arguments.model), device_of(arguments.device)
    model = fetch(preset.target.source, name=preset.name)
    encoder = TextEncoder.of(model)
    documents = [encoder.encode(text) for text in read_corpus(arguments.corpus)]
    report(f"{len(documents)} documents, {sum(map(len, documents))} tokens")
    stages = list(load_library(model, device))
    dtype = dtype_of(preset.target.dtype, device)
    lm = load_language_model(preset, preset.target.quantization, device, model, dtype)
    for stage in (*stages, *run_natively(lm)):
        report(stage.name)
    before, after = PromptBuilder(preset, encoder, model).frame("map", dict.fromkeys(PLACEHOLDERS, "1"))
    leads = tuple(map(encoder.encode, LEADS))
    frame = Frame(before, after, tuple(sorted(end_tokens(lm))), preset.decoding, leads)
    settings = Settings(
        minutes=arguments.minutes,
        steps=arguments.steps,
        prompts=arguments.prompts,
        lengths=tuple(arguments.lengths),
        vocabulary=min(arguments.vocabulary, lm.vocabulary),
        unroll=arguments.unroll,
        seed=arguments.seed,
    )
    if device.type == "cuda":
        settings = replace(settings, batch=8, rows=1024)
    trainer = distill(lm, documents, frame, settings, arguments.output, arguments.answers)
    report(f"{arguments.output}: accepted length {trainer.best:.3f}")


if __name__ == "__main__":
    try:
        main()
    except SpecextendError as error:
        sys.exit("\n".join(filter(None, (f"error: {error.what}", error.why, error.fix))))
