"""`python -m specextend_cli.bench.suite`: the suite without typer and rich."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from specextend_cli.bench.suite.device_info import pick
from specextend_cli.errors import Exit, SpecextendError


def main() -> int:
    """Markdown or JSON on stdout, progress on stderr; the exit code is `specextend bench`'s."""
    parser = argparse.ArgumentParser(prog="python -m specextend_cli.bench.suite", description=__doc__)
    parser.add_argument("--device", default="auto", help="cuda, cuda:1, or cpu for a rehearsal")
    parser.add_argument("--json", action="store_true", help="JSON instead of Markdown")
    parser.add_argument("--report", type=Path, metavar="DIR", help="an HTML page, too")
    asked = parser.parse_args()
    if asked.report is not None and not find_spec("markdown_it"):
        parser.error("--report needs markdown-it-py: pip install markdown-it-py")
    try:
        device = pick(asked.device)
        from specextend_cli.bench.suite import gpu

        if device.type != "cuda":
            print(f"warning: {gpu.REHEARSAL}", file=sys.stderr)
        suite = gpu.run(device, lambda line: print(line, file=sys.stderr, flush=True))
        print(suite.render("json" if asked.json else "md"), end="")
        if asked.report is not None:
            from specextend_cli.bench.report import write_report

            facts = suite.facts | suite.left_out
            print(f"report: {write_report(asked.report, experiments=[suite.experiment], facts=facts)}")
        suite.judge()
    except SpecextendError as error:
        print(f"error: {error.what}", *(part for part in (error.why, error.fix) if part), sep="\n  ", file=sys.stderr)
        return error.exit
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
