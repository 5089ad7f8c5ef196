"""Presets whose models are made on the spot: a random Llama and a smaller draft, with real tokenizers and templates.

The target's output layer is bent so that greedy answers look like prose: words, full stops, sometimes an end.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "[INST]"]
END = SPECIALS.index("<|im_end|>")
CHAT = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SENTENCES = (
    "The harbour was founded by fishermen who needed shelter from the northern wind. ",
    "In 1898 the customs house burned down; it was rebuilt within two years at great expense. ",
    "Ships from many countries bring timber, salt and glass, and take away wool and herring. ",
    "Nobody knows why the lighthouse keeper left his post on that night in November. ",
    "A bridge of 3.5 kilometres has joined the island to the coast since the war. ",
    "The council discussed the price of the new breakwater, and decided nothing. ",
)
CHUNK, NOTE, SUMMARY = 200, 20, 60

PRESET = """
title = "Tiny"
description = "Random weights, for tests."
licence = "none"

[target]
dtype = "float32"

[target.source]
kind = "local"
path = "target"

[draft]
kind = "blend"
of = ["ngram", "lm"]

[draft.source]
kind = "local"
path = "draft"

[retrieval]
chunk = 8
top_k = 4
recent = 16

[window]
context = 512
chunk = {chunk}
chunk_summary_tokens = {note}
summary_tokens = {summary}
summary_parts = {parts}

[prompts]
map = "Part {{part}} of {{parts}} of {{title}}, pages {{pages}}.\\n\\n{{document}}\\n\\nNotes in {{words}} words:"
reduce = "Notes on {{title}}.\\n\\n{{document}}\\n\\nSummary in {{words}} words:"
single = "Title: {{title}}\\n\\n{{document}}\\n\\nSummary in {{words}} words, in {{language}}:"
"""

PLACES = """
[prompts]
system = ""
map = "MAP {document} {focus}"
reduce = "REDUCE {document} {words} {language} {style} {focus}"
single = "SINGLE {document} {words} {language} {style} {focus}"
styles.bullets = "A LIST of {words}."
"""


def text(sentences: int, start: int = 0) -> str:
    """Prose with that many numbered sentences, in paragraphs of four; about 20 tokens each."""
    numbered = [f"({n}) {SENTENCES[n % len(SENTENCES)]}" for n in range(start, start + sentences)]
    return "\n\n".join("".join(numbered[at : at + 4]).strip() for at in range(0, sentences, 4))


def make(folder: Path) -> dict[str, Path]:
    """The files of presets "one" and "three", which differ in `summary_parts`, beside the models that they name."""
    own = tokenizer()
    _save(folder / "target", own, llama(layers=3, hidden=64), seed=0)
    _save(folder / "draft", own, llama(layers=1, hidden=32), seed=1)
    return {name: write(folder / f"{name}.toml", parts) for name, parts in (("one", 1), ("three", 3))}


def write(path: Path, parts: int = 1, *, chunk: int = CHUNK, note: int = NOTE, summary: int = SUMMARY) -> Path:
    """A preset file; its models are looked for beside it."""
    path.write_text(PRESET.format(parts=parts, chunk=chunk, note=note, summary=summary))
    return path


def with_places(path: Path, one: Path) -> Path:
    """A preset file for the models of preset `one`, whose prompts say everything that can be asked."""
    words = one.read_text().replace('path = "', f'path = "{one.parent}/')
    path.write_text(words[: words.index("[prompts]")] + PLACES)
    return path


@cache
def tokenizer() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(SENTENCES * 4, trainer=trainer)
    return made


def make_other(folder: Path, one: Path, config: PreTrainedConfig | None = None) -> Path:
    """A preset file as preset `one`, whose target keeps a compressed cache (MLA): the engine's forward has none.

    Or its target is that of a `config`.
    """
    _save(folder / "target", tokenizer(), config or mla(), seed=0)
    shutil.copytree(one.parent / "draft", folder / "draft")
    return Path(shutil.copy(one, folder / "other.toml"))


def llama(*, layers: int, hidden: int) -> PreTrainedConfig:
    from transformers import LlamaConfig

    return LlamaConfig(num_hidden_layers=layers, hidden_size=hidden, num_key_value_heads=2, **_settings())


def mla() -> PreTrainedConfig:
    from transformers import DeepseekV3Config

    compressed = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8}
    compressed |= {"v_head_dim": 16}
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_key_value_heads": 4, "first_k_dense_replace": 2}
    return DeepseekV3Config(**sizes, **compressed, **_settings())


def mamba() -> PreTrainedConfig:
    """Without attention, and so without many of the sizes that other configurations have."""
    from transformers import Mamba2Config

    sizes = {"num_hidden_layers": 3, "hidden_size": 64, "num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2}
    return Mamba2Config(**sizes, vocab_size=tokenizer().get_vocab_size(), bos_token_id=None, eos_token_id=END)


def _settings() -> dict[str, Any]:
    return {
        "vocab_size": tokenizer().get_vocab_size(),
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "max_position_embeddings": 1024,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": END,
        "pad_token_id": 0,
    }


def _save(folder: Path, tokenizer: Tokenizer, config: PreTrainedConfig, *, seed: int) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    prose = re.compile(r"Ġ[A-Za-z]{2,}|[.,]")
    with torch.no_grad():
        for piece, number in tokenizer.get_vocab().items():
            model.lm_head.weight[number] *= {".": 2.0, "<|im_end|>": 1.2}.get(
                piece, float(bool(prose.fullmatch(piece)))
            )
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT, "eos_token": "<|im_end|>"}))
