"""What test_tensor_parallel.py starts in several processes: the first prints what it wrote, the others follow."""

from __future__ import annotations

import json
import sys

import torch
from torch import distributed

from specextend_cli.engine import native
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tensor_parallel import LeadingTarget, ProcessGroup, follow
from specextend_cli.models.splitting import split
from tests.engine.tiny_models import prompt, tiny
from tests.helpers.decoding import DRAFTERS, run, small

NEW = 24
EVERY = [(drafter, policy) for drafter in ("ngram", "lm", "eagle1", "eagle3") for policy in ("full", "retrieval")]
SOME = [("eagle3", "retrieval")]


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    native.is_loaded = lambda: False
    distributed.init_process_group("gloo")
    group = ProcessGroup()
    found = {}
    for name in names:
        model = tiny(name)
        with group.one_at_a_time():
            split(model, group)
        lm = LanguageModel(model, parts=group.size)
        if group.rank:
            assert follow(Target(lm, score_layers=(-1, 0)), group) == ("end",)
            continue
        target = LeadingTarget(lm, group, score_layers=(-1, 0))
        written = {}
        for drafter, policy in EVERY if name == "llama" else SOME:
            retrieval = small(policy)
            gate = policy == "full"
            events = run(target, DRAFTERS[drafter](target, retrieval), prompt(), retrieval, gate=gate, new=NEW)
            written[f"{drafter}, {policy}"] = events[0]
        target.begin(300)
        target.prefill(torch.tensor(prompt()))
        seen = {
            "scores": target.attention_from(-1).tolist(),
            "heads": target.cache.buffer.shape[2],
        }
        group.dismiss()
        found[name] = {"written": written, **seen}
    if not group.rank:
        sys.stdout.write(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
