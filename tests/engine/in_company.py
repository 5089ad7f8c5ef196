"""What test_parallel.py starts in several processes: the first prints what it wrote, the others follow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import distributed

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from test_identity import DRAFTERS, run, small
from tiny_models import prompt, tiny

from specextend_cli.engine import native
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tensor_parallel import LeadingTarget, ProcessGroup, follow
from specextend_cli.models.splitting import split

MARKS = [0, 40, 90, 140]
NEW = 24
EVERY = [(drafter, policy) for drafter in ("ngram", "lm", "eagle1", "eagle3") for policy in ("full", "retrieval")]
SOME = [("eagle3", "retrieval")]


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    native.is_loaded = lambda: False
    distributed.init_process_group("gloo")
    crew = ProcessGroup()
    found = {}
    for name in names:
        model = tiny(name)
        with crew.in_turn():
            split(model, crew)
        lm = LanguageModel(model, parts=crew.size)
        layers = {"score_layers": (-1, 0), "look_layers": (1,)}
        if crew.rank:
            assert follow(Target(lm, **layers), crew) == ("end",)
            continue
        target = LeadingTarget(lm, crew, **layers)
        written = {}
        for drafter, policy in EVERY if name == names[0] else SOME:
            retrieval = small(policy)
            gate = policy == "full"
            events = run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval, gate=gate, new=NEW)
            written[f"{drafter}, {policy}"] = events[0]
        target.begin(300)
        target.prefill(torch.tensor(prompt()))
        seen = {
            "scores": target.attention_from([-1]).tolist(),
            "looks": target.looks([-1], torch.tensor(MARKS)).tolist(),
            "heads": target.cache.buffer.shape[2],
        }
        crew.dismiss()
        found[name] = {"written": written, **seen}
    if not crew.rank:
        sys.stdout.write(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
