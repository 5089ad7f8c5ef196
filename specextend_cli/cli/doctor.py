"""`specextend doctor`: what this machine has, what is missing, what that costs, and the one command to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specextend_cli.cli import options
from specextend_cli.errors import Exit

if TYPE_CHECKING:
    from specextend_cli.ui.tables import Check


def doctor(json: options.Json = False, debug: options.Debug = False) -> None:
    """Check this machine; ends with a block to paste into a report.

    Says what everything that is missing costs, and the one command to begin with. Exit code 4: something is missing
    without which no model can be run.

    Example:
      specextend doctor
    """
    from dataclasses import asdict

    from rich.text import Text

    from specextend_cli.cli.doctor_checks import examine
    from specextend_cli.ui.jsonl import format_json
    from specextend_cli.ui.streams import GOOD, QUIET, Output
    from specextend_cli.ui.tables import format_checks, worst

    output = Output()
    checks = list(examine(output))
    if json:
        output.write(format_json([asdict(check) for check in checks]) + "\n")
    else:
        output.show(format_checks(checks))
        mend = worst(checks)
        output.show("")
        said = Text("nothing that is needed is missing", style=GOOD)
        output.show(Text.assemble(("try:   ", "bold"), mend.fix) if mend else said)
        output.show(Text("\nto paste into a report:\n", style=QUIET))
        output.write(format_report(checks) + "\n")
    if any(check.state == "bad" for check in checks):
        raise SystemExit(int(Exit.MODEL))


def format_report(checks: list[Check]) -> str:
    """The findings as a fenced block without colours, for an issue."""
    return "\n".join(("```", *(f"{check.name}: {check}" for check in checks), "```"))
