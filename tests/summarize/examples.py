"""What documentation shows, found and made runnable: its code blocks, and a small pair under the default one's name."""

from __future__ import annotations

import re
from pathlib import Path

from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import user_presets
from tests.summarize import tiny_preset

DOCS = Path(__file__).parents[2] / "docs"
_PROMPTS = """
[prompts]
map = "{document} Notes: {focus}"
reduce = "{document} Summary in {words} words, in {language}: {style} {focus}"
single = "{document} Summary in {words} words, in {language}: {style} {focus}"
"""


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of that language on a page of docs/."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def stand_in(presets: dict[str, Path]) -> None:
    """Let the default preset's name mean the tiny pair, whose prompts say everything that can be asked."""
    user_presets().mkdir(parents=True, exist_ok=True)
    path = tiny_preset.write(user_presets() / f"{DEFAULT}.toml")
    words = path.read_text().replace('path = "', f'path = "{presets["one"].parent}/')
    path.write_text(words[: words.index("[prompts]")] + _PROMPTS)
