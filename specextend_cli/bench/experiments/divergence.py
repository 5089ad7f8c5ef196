"""Draft against target, token by token, where the target is sure and where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from specextend_cli.bench.events import Decoding
from specextend_cli.bench.experiments.setting import Run, Setting
from specextend_cli.bench.forced import Said, forced
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.tables import Experiment, Table

POLICIES = ("full", "streaming", "retrieval")
_LEAST = 1e-10


@dataclass(frozen=True)
class _Token:
    """One token of the output: entropy of the target (nats), its divergence from the draft, and what that costs."""

    entropy: float
    kl: float
    agree: bool
    overlap: float


def run(setting: Setting) -> Run:
    """Along plain decoding's own output. Easy and hard tokens are those below and above the median entropy."""
    models = setting.models
    found = yield from setting.measure({})
    tokens: dict[tuple[int, str], list[_Token]] = {}
    for prompt in setting.prompts:
        written = next(record for record in found.of("plain", prompt.length) if record.document == prompt.document)
        with models.fitted(prompt.length + setting.decoding.tokens):
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            for policy in POLICIES:
                yield Decoding(policy, prompt.document, prompt.length, 0, 0, len(written.tokens))
                recipe = setting.policy(policy)
                drafter = recipe.drafter(target)
                at = tokens.setdefault((prompt.length, policy), [])
                at += map(
                    compare,
                    forced(
                        target,
                        drafter,
                        prompt.tokens,
                        written.tokens,
                        recipe.retrieval,
                        setting.decoding.prefill_chunk,
                    ),
                )
    rows = []
    for (length, policy), every in tokens.items():
        if not every:
            continue
        middle = median(token.entropy for token in every)
        easy = [token for token in every if token.entropy <= middle]
        hard = [token for token in every if token.entropy > middle]
        for name, part in (("all", every), ("easy", easy), ("hard", hard)):
            if part:
                rows.append(
                    (
                        length,
                        policy,
                        name,
                        len(part),
                        fmean(token.entropy for token in part),
                        fmean(token.kl for token in part),
                        fmean(token.agree for token in part),
                        fmean(token.overlap for token in part),
                    )
                )
    return Experiment(
        "divergence",
        "Where does the draft part from the target: on easy tokens or on hard ones?",
        (
            Table(
                "Draft against target",
                (
                    "prompt (tokens)",
                    "the draft sees",
                    "tokens",
                    "number",
                    "entropy of the target (nats)",
                    "KL(target, draft) (nats)",
                    "same first choice",
                    "overlap",
                ),
                tuple(rows),
                "Raw distributions, before penalties and temperature. Easy: entropy up to the median. Overlap: the sum "
                "of the smaller probability of each token, which is how often sampling would accept a single draft.",
            ),
        ),
    )


def compare(said: Said) -> _Token:
    """The two distributions before one token."""
    target, draft = said.target, said.draft.clamp(min=_LEAST)
    sure = target.clamp(min=_LEAST)
    return _Token(
        entropy=float(-(target * sure.log()).sum()),
        kl=max(float((target * (sure.log() - draft.log())).sum()), 0.0),  # rounding may take it below
        agree=int(target.argmax()) == int(draft.argmax()),
        overlap=float(target.minimum(said.draft).sum()),
    )
