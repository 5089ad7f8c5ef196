"""Chat templates: messages to the text of a prompt, without transformers or torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_object, usable

_LONGEST = 1_000_000  # characters of a template; published ones have up to 20,000


def render_chat(
    directory: Path,
    messages: Sequence[Mapping[str, str]],
    *,
    template: str | None = None,
    options: Mapping[str, object] | None = None,
) -> str:
    """The prompt for `messages` (`role` and `content` each), up to where the answer begins.

    `template` replaces the model's own; `options` are further variables for it. The template runs in a sandbox, with
    the functions that transformers gives it. ModelError: there is no template, or it refuses the messages or fails.
    """
    from specextend_cli.models.template_sandbox import Sandbox, bounded

    settings = _settings(directory)
    source = template or chat_template(directory)
    if source is None:
        raise no_chat_template(directory.name)
    # Jinja's own tojson escapes HTML characters.
    environment = Sandbox(tojson=lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent))
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    # A dictionary, because a variable may have the name of another, or of an argument of `render`.
    given = {"messages": messages, "add_generation_prompt": True}
    fix = 'leave [prompts] system = "" if the model takes no system message, or write chat_template there'
    with usable(f"the chat template of {directory.name} refuses the prompt", fix=fix):
        compiled = environment.from_string(source)
        with bounded():
            return compiled.render({**_special_tokens(settings), **(options or {}), **given})


_PLAIN = """chat_template = '{% for m in messages %}{{ m.content }}{{ "\\n\\n" }}{% endfor %}'"""


def no_chat_template(model: str, preset: str = "PRESET") -> ModelError:
    """The error of a model without a template; `preset` is what the user names it by."""
    return ModelError(
        f"{model} has no chat template, so the format of its prompts is unknown",
        why="base models and some conversions have none",
        fix=f"use a model that follows instructions; or specextend models show {preset} > mine.toml, add its own "
        f"template there under [prompts], or this plain one, and use --model ./mine.toml: {_PLAIN}",
    )


def chat_template(directory: Path) -> str | None:
    """The model's own template (Jinja), or None: from chat_template.jinja, tokenizer_config.json, chat_template.json.

    The last is that of older models that also read images, whose tokenizer may have none.
    """
    file = directory / "chat_template.jinja"
    with usable(f"cannot read the chat template of {directory.name}"):
        if file.is_file():
            return _bounded(file.read_text(encoding="utf-8"))
        older = directory / "chat_template.json"
        template = _settings(directory).get("chat_template")
        if template is None and older.is_file():
            template = read_object(older).get("chat_template")
        if isinstance(template, list):  # several, by name
            template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
        if template is not None and not isinstance(template, str):
            raise ValueError("it is not text")
        return _bounded(template) if template else None


def _bounded(template: str) -> str:
    if len(template) > _LONGEST:
        raise ValueError(f"it has {len(template):,} characters, more than {_LONGEST:,}")
    return template


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """bos_token and the like, each a string or an object with a `content`."""
    tokens = {key: value for key, value in settings.items() if key.endswith("_token") and value}
    contents = {key: value.get("content") if isinstance(value, dict) else value for key, value in tokens.items()}
    return {key: value for key, value in contents.items() if isinstance(value, str)}


def _refuse(message: str) -> NoReturn:
    from jinja2.exceptions import TemplateError

    raise TemplateError(message)


def _settings(directory: Path) -> dict[str, Any]:
    file = directory / "tokenizer_config.json"
    with usable(f"cannot read {file}"):
        return read_object(file) if file.is_file() else {}
