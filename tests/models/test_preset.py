"""Presets: what their files may say, what they leave out, and the settings of the shipped ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specextend_cli import toml
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.errors import Exit, UsageError
from specextend_cli.models.choice import Machine
from specextend_cli.models.memory import estimate
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import list_presets, load_preset, to_toml, user_presets
from specextend_cli.models.prompt_templates import fill
from specextend_cli.models.shape import GRAPHS, HEADROOM

HEAD = '[draft]\nkind = "eagle"\n'
SOURCE = '[draft.source]\nkind = "hub"\nrepo = "owner/head"\n'
WHEEL = '[draft.source]\nkind = "wheel"\npackage = "p"\nversion = "1"\nfile = "f"\nfile_bytes = 1\nwheel_bytes = 1\n'
HASHES = f'sha256 = "{64 * "0"}"\nwheel_sha256 = "{64 * "0"}"\n'
END = "[window]"


def write(tmp_path: Path, text: str, name: str = "mine") -> Path:
    file = tmp_path / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_shipped_presets_are_valid_and_the_default_comes_first() -> None:
    presets = list_presets()
    assert presets[0].name == DEFAULT
    assert len(presets) >= 20
    assert len({preset.name for preset in presets}) == len(presets)
    for preset in presets:
        assert preset.target.shape is not None
        assert (preset.draft.shape is not None) == (preset.draft.model is not None or "mtp" in preset.draft.drafters)
        assert preset.tested == (preset.name == DEFAULT)  # no other was ever loaded by its authors


def test_heads_of_short_training_never_see_more_than_they_were_trained_on() -> None:
    """Between two choices a working set grows by what is accepted: a tree's depth and one, at most, a step."""
    checked = 0
    for preset in list_presets():
        seen, tree = preset.retrieval, preset.tree
        if preset.draft.model == "eagle" and seen.positions == "compact":
            size = seen.sinks + seen.top_k * seen.chunk + seen.recent
            assert preset.draft.trained is not None
            assert size + seen.every * (tree.depth + 1) <= preset.draft.trained, preset.name
            checked += 1
    assert checked >= 12


@pytest.mark.parametrize(
    ("old", "new", "where", "hint"),
    [
        ("licence", "license", "license: unknown key", "licence"),
        ("context = 1024", "context = 1024\ncontent = 2", "window.content: unknown key", "context"),
        ("context = 1024", 'context = "1024"', "window.context: Input should be a valid integer", "change"),
        ("context = 1024", "", "window.context: missing", "context"),
        ("chunk = 256", "chunk = 1000", "window: chunk and the new tokens", "change"),
        ("repo =", "rep =", "target.source.rep", "repo"),
        ('kind = "hub"', 'kind = "hug"', "target.source", "change"),
        ('"owner/model"', '"model"', "target.source.repo", "change"),
        ("{document} joined", "joined", "prompts.reduce: {document} must occur exactly once, not 0 times", "change"),
        ("{document} joined", "{document}{document}", "prompts.reduce: {document} must occur exactly once", "change"),
        ("in {words}", "in {wrods}", "prompts.single: unknown placeholder {wrods}", "change"),
        (END, '[draft]\nkind = "lm"\n', "draft: a model as draft needs a [draft.source]", "change"),
        (END, '[draft]\nkind = "blend"\n', "draft: a blend needs two different drafters", "change"),
        (END, '[draft]\nkind = "blend"\nof = ["ngram", "table"]\n', "draft: an n-gram table lies beside", "change"),
        (END, '[draft]\nof = ["ngram"]\n', 'draft: "of" belongs to kind = "blend"', "change"),
        (END, '[draft]\nkind = "ngrams"\n', "draft.kind: 'ngrams' is not none, ngram,", "change"),
        (END, '[draft]\nkind = "blend"\nof = ["ngram", "none"]\n', "draft: a blend is of drafters", "change"),
        (END, HEAD + WHEEL + HASHES, "draft: a head comes from the hub", "change"),
        (END, "[draft.shape]\nweights = 9\n", "draft: [draft.shape] has the sizes", "change"),
        (END, '[draft]\nkind = "blend"\nof = ["assistant", "eagle"]\n', "draft: a draft has one source", "change"),
        (END, "[decoding]\ntop_p = 2\n", "decoding: top_p must be above 0 and at most 1", "change"),
        (END, "[decoding]\ntop_k = 40\n", "decoding.top_k: unknown key", "top_p"),
        (END, "[retrieval]\nlayers = []\n", "retrieval: layers must name a layer", "change"),
        (END, "[retrieval]\nlayers = [1.5]\n", "retrieval.layers.0: Input should be a valid", "change"),
        (END, "[retrieval]\ntop_k = 0\n", "top_k under [retrieval]", "change"),
        (END, '[retrieval]\ncut = "sentences"\n', "retrieval.cut: unknown key", "remove"),
        (END, "[tree]\nforwards = 1\n", "tree: 'forwards' cannot be set", "change"),
        (END, "[tree]\nnods = 4\n", "tree.nods: unknown key", "nodes"),
        (END, "[tree]\nthreshold = -0.1\n", "tree: threshold must be at least 0", "change"),
        (END, "[tree]\ndepth = 0\n", "depth under [tree] must be at least 1", "change"),
        (END, "[decoding]\nseed = 1979-05-27\n", "decoding.seed", "change"),
    ],
)
def test_errors_name_file_key_and_fix(
    tmp_path: Path, preset_text: str, old: str, new: str, where: str, hint: str
) -> None:
    file = write(tmp_path, preset_text.replace(old, new + END if old == END else new))
    with pytest.raises(UsageError) as caught:
        load_preset(file)
    assert str(file) in caught.value.what
    assert where in caught.value.what
    assert hint in caught.value.fix
    assert caught.value.exit == Exit.USAGE


def test_the_papers_settings_fill_what_a_preset_leaves_out(tmp_path: Path, preset_text: str) -> None:
    preset = load_preset(write(tmp_path, preset_text.replace("[window]", "[retrieval]\n[tree]\nnodes = 12\n[window]")))
    assert preset.retrieval == Retrieval(policy="retrieval", recent=128, positions="compact", layers=(-1,))
    assert (preset.retrieval.chunk, preset.retrieval.top_k, preset.retrieval.every) == (32, 32, 4)
    assert preset.tree == TreeShape(nodes=12, depth=10, width=10, threshold=0.7)
    assert preset.decoding == Sampling(temperature=0.0, seed=0)
    assert (preset.name, preset.draft.kind) == ("mine", "ngram")
    assert str(preset.target.source) == "owner/model (unpinned)"


@pytest.mark.parametrize(
    ("name", "content", "what", "why"),
    [
        ("mine", b"[window\n", "not valid TOML", "line"),
        ("mine", b"\xff\xfe\x00", "cannot read the preset", ""),
        ("mine", None, "no preset file", ""),
        ("Fast", b"", "no name for a preset", ""),
        ("a b", b"", "no name for a preset", ""),
    ],
)
def test_files_that_are_no_presets(name: str, content: bytes | None, what: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=what) as caught:
        load_preset(file)
    assert why in caught.value.why


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'smollm2-135m'") as caught:
        load_preset("smolm2-135")
    assert (caught.value.why, caught.value.fix) == ("", "specextend models list")
    with pytest.raises(UsageError) as caught:
        load_preset("zzz")
    assert "did you mean" not in caught.value.what


def test_user_presets_are_found_and_hide_shipped_ones(preset_text: str) -> None:
    folder = user_presets()
    folder.mkdir(parents=True)
    write(folder, preset_text)
    write(folder, preset_text, DEFAULT)
    assert load_preset("mine").title == "Mine"
    assert load_preset(DEFAULT).title == "Mine"
    assert [preset.name for preset in list_presets()].count(DEFAULT) == 1


def test_local_paths_are_relative_to_the_preset_wherever_presets_lie(tmp_path: Path, preset_text: str) -> None:
    """As in an installed wheel, which takes the directory of presets whole."""
    text = preset_text.replace('kind = "hub"\nrepo = "owner/model"', 'kind = "local"\npath = "models/mine"')
    text = text.replace("[window]", HEAD + '[draft.source]\nkind = "local"\npath = "mine-head"\n[window]')
    for folder in (tmp_path / "checkout", tmp_path / "installed"):
        folder.mkdir()
        preset = load_preset(write(folder, text))
        assert preset.target.source.path == (folder / "models" / "mine").resolve()
        assert preset.draft.source.path == (folder / "mine-head").resolve()
    project = toml.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "presets" in wheel["only-include"]
    assert wheel["sources"]["presets"] == "specextend_cli/presets"


def test_fill_splits_at_the_document_and_leaves_braces_in_values() -> None:
    before, after = fill("{title}: {document} in {words} {x", {"title": "{document} {y}", "words": 5})
    assert (before, after) == ("{document} {y}: ", " in 5 {x")


def test_presets_sizes_and_tokens_need_neither_torch_nor_transformers() -> None:
    code = """
import sys
from specextend_cli.models import chat_template, hub, memory, presets, pypi_source, sources, tokens
for p in presets.list_presets():
    memory.estimate(p), sources.locate(p.target.source)
assert not {"torch", "transformers", "numpy", "gguf"} & set(sys.modules), set(sys.modules)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


PRESETS = {preset.name: preset for preset in list_presets()}
RANKED = sorted((preset for preset in PRESETS.values() if preset.rank), key=lambda preset: preset.rank or 0)

WORKING_SETS = {None: (64, 256), 2048: (56, 128), 4096: (64, 256)}
"""Chunks and newest tokens, by the number of tokens that a draft was trained on."""


def test_what_shipped_presets_leave_out_is_computed() -> None:
    """All of the default one's settings were measured, and working sets of language models as drafts in the paper."""
    for name, preset in PRESETS.items():
        draft, seen, window = preset.draft, preset.retrieval, preset.window
        if name != DEFAULT:
            assert window.chunk == 3 * window.context // 4, name
            assert window.context == 8192 or preset.gpu_memory, name
            assert draft.window == (draft.trained // 2 if draft.trained else None), name
            is_papers = draft.kind in ("ngram", "lm")
            assert (seen.top_k, seen.recent) == ((32, 128) if is_papers else WORKING_SETS[draft.trained]), name


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.gpu_memory])
def test_a_preset_fits_the_gpu_that_it_is_made_for(name: str) -> None:
    preset = PRESETS[name]
    need = estimate(preset)
    assert Machine("cuda", preset.gpu_memory * 10**9).holds(need)
    if "window" not in preset.model_fields_set and preset.window.context < 32768:
        larger = estimate(preset, context=preset.window.context + 2048)
        assert larger + GRAPHS > HEADROOM * preset.gpu_memory * 10**9


def test_no_preset_thinks_and_what_is_computed_is_shown() -> None:
    for preset in PRESETS.values():
        assert preset.prompts.template_options == {"enable_thinking": False}
    shown = to_toml(PRESETS["qwen3-8b-eagle3"])
    for line in ("context = 18432", "top_k = 56", "window = 1024", "trained = 2048", "enable_thinking = false"):
        assert line in shown.splitlines()


def test_a_gpu_that_is_too_small_is_an_error_of_the_file(tmp_path: Path) -> None:
    text = to_toml(PRESETS["qwen3-32b-eagle3"])
    file = tmp_path / "mine.toml"
    file.write_text(text[: text.index("\n[window]")].replace("gpu_memory = 80", "gpu_memory = 24"))
    with pytest.raises(UsageError, match="a GPU of 24 GB holds no window of 4,096 tokens") as caught:
        load_preset(file)
    assert str(file) in caught.value.what


def test_ranks_follow_the_rule_of_the_manual() -> None:
    """Those below 6% first, or of a family of which all were; then by size, in four or eight bits half of it."""
    assert [preset.rank for preset in RANKED] == list(range(1, len(RANKED) + 1))

    def key(name: str) -> tuple[bool, float]:
        preset = PRESETS[name]
        faithful = (preset.evidence is not None and preset.evidence.hallucinated < 0.06) or name.startswith("qwen3-")
        small = preset.target.quantization != "none" or preset.target.source.kind == "hub-file"
        return not faithful, -preset.target.shape.weights / (2 if small else 1)

    names = [preset.name for preset in RANKED]
    assert names == sorted(names, key=key)
    assert not any(preset.gated for preset in RANKED)
    assert all(preset.evidence is None or "Vectara" in preset.evidence.source for preset in RANKED)


@pytest.mark.parametrize(
    ("gigabytes", "first"),
    [
        (4, "qwen3-0.6b"),
        (8, "qwen3-4b-4bit-eagle3"),
        (12, "qwen3-8b-4bit-eagle3"),
        (16, "qwen3-8b-4bit-eagle3"),
        (24, "qwen3-8b-eagle3"),
        (48, "qwen3-14b-eagle3"),
        (80, "qwen3-32b-eagle3"),
    ],
)
def test_the_first_that_fits_a_gpu(gigabytes: int, first: str) -> None:
    machine = Machine("cuda", gigabytes * 10**9)
    assert next(preset.name for preset in RANKED if machine.holds(estimate(preset))) == first
