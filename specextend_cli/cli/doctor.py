"""`specextend doctor`: what this machine has and lacks, and the first command to run."""

from __future__ import annotations

from dataclasses import asdict

from specextend_cli.cli import options
from specextend_cli.errors import Exit


def doctor(json: options.Json = False) -> None:
    """Check this machine and print a report to paste into an issue.

    Each finding says what a missing part costs; the last line is the first command to run. Exit code 4 means that no
    model can be run.

    Example:
      specextend doctor
    """
    from rich.text import Text

    from specextend_cli.cli.doctor_checks import examine
    from specextend_cli.ui.output import GOOD, QUIET, Output, sanitize
    from specextend_cli.ui.tables import format_checks, worst

    output = Output()
    checks = list(examine(output))
    if json:
        output.write_json([asdict(check) for check in checks])
    else:
        output.show(format_checks(checks))
        mend = worst(checks)
        output.show("")
        said = Text("everything required is installed", style=GOOD)
        output.show(Text.assemble(("try:   ", "bold"), mend.fix) if mend else said)
        output.show(Text("\nto paste into a report:\n", style=QUIET))
        lines = (sanitize(f"{check.name}: {check}") for check in checks)
        output.show(Text("\n".join(("```", *lines, "```"))))
    if any(check.state == "bad" for check in checks):
        raise SystemExit(int(Exit.MODEL))
