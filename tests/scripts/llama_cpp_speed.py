"""llama.cpp on one GGUF file: `PYTHON llama_cpp_speed.py FILE PROMPT TOKENS THREADS VOCABULARY` prints a line of JSON.

It imports nothing of ours, so that any Python with llama-cpp-python can run it.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time


def main() -> None:
    """Seconds to the first token of a random prompt, tokens a second after it, and the peak of memory."""
    import llama_cpp

    file, (length, tokens, threads, vocabulary) = sys.argv[1], map(int, sys.argv[2:6])
    llama = llama_cpp.Llama(
        file, n_ctx=length + tokens + 64, n_threads=threads, n_threads_batch=threads, n_gpu_layers=0, verbose=False
    )
    prompt = random.Random(0).choices(range(vocabulary), k=length)
    began = first = time.perf_counter()
    written = 0
    for _ in llama.generate(prompt, temp=0.0, repeat_penalty=1.0):
        written += 1
        if written == 1:
            first = time.perf_counter()
        if written == tokens:
            break
    seconds = time.perf_counter() - first
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"first": first - began, "speed": (written - 1) / seconds, "peak": peak}))


if __name__ == "__main__":
    main()
