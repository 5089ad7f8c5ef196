"""Re-indexing against selection: is it which keys a draft sees that helps, or where it believes they stand?"""

from __future__ import annotations

from specextend_cli.bench.experiments.setting import Run, Setting, by_method
from specextend_cli.bench.methods import Method
from specextend_cli.bench.tables import Experiment
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError


def run(setting: Setting) -> Run:
    """Everything, the newest tokens, or what the target attends to; at dense positions, or where they were."""
    methods: dict[str, Method] = {"everything": setting.policy("full")}
    for policy in ("streaming", "retrieval"):
        for where in ("absolute", "compact"):
            name, recipe = f"{policy}, {where}", setting.policy(policy, positions=where)
            try:
                recipe.drafter(Target(setting.models.lm))
            except ModelError as error:
                setting.skipped[name] = error.why
                continue
            methods[name] = recipe
    found = yield from setting.measure(methods)
    return Experiment(
        "positions",
        "Does a draft gain from seeing the right keys, or from seeing them at positions it was trained for?",
        (
            by_method(
                "Selection and positions",
                "the draft sees",
                found.rows,
                "Streaming and retrieval see the same number of tokens. Compact: re-indexed densely.",
            ),
        ),
    )
