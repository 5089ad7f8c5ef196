"""Peak memory of the embedded pair on 8K tokens: weights + keys and values + 1 GB, and no more."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MEASURE = """
import json, re, resource, sys, torch
from pathlib import Path
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.decode import decode
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.models.load import load_model
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch_pair

lm = LanguageModel(load_model(fetch_pair(load_preset("smollm2-135m")).target, dtype=torch.bfloat16))
target = Target(lm)
retrieval = Retrieval(top_k=8)
drafter = LMDrafter(lm, target, retrieval)
buffers = set()
length = int(sys.argv[1])
for event in decode(target, drafter, [i % 1000 + 100 for i in range(length)], stop=Stop(24), retrieval=retrieval):
    buffers.add(target.cache.buffers[0].data_ptr())
if sys.platform == "darwin":
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
else:  # Linux counts in ru_maxrss what the process that started this one had
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
weights = sum(p.numel() * p.element_size() for p in lm.model.parameters())
print(json.dumps({"peak": peak, "weights": weights, "kv": target.cache.nbytes, "buffers": len(buffers)}))
"""


@pytest.mark.full
@pytest.mark.pair
def test_peak_memory_on_8k_tokens() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE, "8192"], check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["peak"] <= figures["weights"] + figures["kv"] + 1e9, figures
    assert figures["buffers"] == 1  # the cache was allocated once: no step concatenated
