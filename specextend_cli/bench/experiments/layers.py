"""Whose attention scores chunks: the last layer's and the last token's, as in the paper, or others', or several."""

from __future__ import annotations

from specextend_cli.bench.experiments.setting import Run, Setting, by_method
from specextend_cli.bench.tables import Experiment


def run(setting: Setting) -> Run:
    """Each choice reads the prompt anew: the scores of the first working set come from the prefill."""
    count = setting.models.lm.layers
    chosen = {
        "last": (-1,),
        "middle": (count // 2,),
        "three quarters": (3 * count // 4,),
        "last half": tuple(range(count // 2, count)),
        "all": tuple(range(count)),
    }
    found = yield from setting.measure(
        {name: setting.policy("retrieval", layers=layers) for name, layers in chosen.items()}
        | {
            f"{name}, all accepted tokens": setting.policy("retrieval", layers=chosen[name], queries="accepted")
            for name in ("last", "all")
        }
    )
    return Experiment(
        "layers",
        "Whose attention tells best what a draft needs to see?",
        (
            by_method(
                "Layers that score",
                "layers",
                found.rows,
                f"Of {count} layers; the attention of several is averaged. The query is the last accepted token's, "
                "unless all accepted ones are averaged. Attention seen is measured by the same layers, so it compares "
                "only within a row.",
            ),
        ),
    )
