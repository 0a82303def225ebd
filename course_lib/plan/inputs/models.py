"""Models by name, by the path of a ``config.json``, and by sizes that are typed."""

from __future__ import annotations

import difflib
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.checks import known
from course_lib.plan.inputs.hf_config import decoder_of_file
from course_lib.plan.inputs.model import Decoder

__all__ = ["MODELS", "decoder", "decoder_of_words"]


def _llama(name: str, layers: int, hidden: int, heads: int, ffn: int, **others: Any) -> Decoder:
    sizes: dict[str, Any] = {"vocab": 128256, "kv_heads": 8, "gated": True, "norm_parameters": 1} | others
    return Decoder(name, layers, hidden, heads, ffn, **sizes)


def _gpt(name: str, layers: int, hidden: int, heads: int, vocab: int = 51200) -> Decoder:
    return Decoder(name, layers, hidden, heads, 4 * hidden, vocab, tied=True, positions=2048, bias=True)


MODELS = {
    model.name: model
    for model in (
        Decoder("gpt-2", 12, 768, 12, 3072, 50257, tied=True, positions=1024, bias=True),
        Decoder("gpt-2-xl", 48, 1600, 25, 6400, 50257, tied=True, positions=1024, bias=True),
        _gpt("gpt-3-175b", 96, 12288, 96),
        _gpt("megatron-530b", 105, 20480, 128),
        _llama("llama-2-7b", 32, 4096, 32, 11008, vocab=32000, kv_heads=32),
        _llama("llama-2-13b", 40, 5120, 40, 13824, vocab=32000, kv_heads=40),
        _llama("llama-2-70b", 80, 8192, 64, 28672, vocab=32000),
        _llama("llama-3.2-1b", 16, 2048, 32, 8192, tied=True),
        _llama("llama-3-8b", 32, 4096, 32, 14336),
        _llama("llama-3-70b", 80, 8192, 64, 28672),
        _llama("llama-3-405b", 126, 16384, 128, 53248),
        _llama("mistral-7b", 32, 4096, 32, 14336, vocab=32000),
        _llama("mixtral-8x7b", 32, 4096, 32, 14336, vocab=32000, experts=8, experts_per_token=2),
    )
}


@checked
def decoder(name: str) -> Decoder:
    """A model by name, or by the path of a Hugging Face ``config.json``; ValueError with the names there are."""
    wanted = _plain(name)
    for known_name, model in MODELS.items():
        if _plain(known_name) == wanted:
            return model
    path = Path(name)
    if path.is_dir() and (path / "config.json").is_file():
        return decoder_of_file(path / "config.json")
    if path.suffix == ".json" or (path.exists() and not path.is_dir()):  # a pipe, too, is told what it is
        return decoder_of_file(path)
    near = difflib.get_close_matches(name.lower(), MODELS, n=1, cutoff=0.4)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"model is {name!r}, which the planner does not know.{guess} There are {', '.join(MODELS)}; or give the path "
        "of a Hugging Face config.json."
    )


def _plain(name: str) -> str:
    """As people type it: GPT2, llama3-8b; Llama 3.1 has the sizes of Llama 3."""
    return re.sub(r"[\s_.-]+", "", re.sub(r"3\.1(?=-)", "3", name.lower()))


_SIZES = {field.name: field.type for field in fields(Decoder) if field.name != "name"}
_NEEDED = ("layers", "hidden", "heads", "vocab")


@checked
def decoder_of_words(text: str, *, base: Decoder | None = None) -> Decoder:
    """Sizes as in ``"layers=32 hidden=4096 heads=32 ffn=14336 vocab=32000 gated"``; of ``base`` where none is given.

    ``gated``, ``tied`` and ``bias`` stand alone; without ``ffn`` an MLP is four times as wide as the model. ValueError
    for a word that is no size, and for the first size that is missing.
    """
    sizes: dict[str, Any] = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        known("--sizes", name, _SIZES)
        if _SIZES[name] == "bool":
            if value.lower() not in ("", "yes", "no", "true", "false"):
                raise ValueError(f"--sizes says {word!r}; {name} stands alone, or as {name}=no.")
            sizes[name] = value.lower() not in ("no", "false")
        elif not value.isdecimal():
            raise ValueError(f"--sizes says {word!r}; a size is a whole number, as in {name}=32.")
        else:
            sizes[name] = int(value)
    if base is not None:
        sizes["name"] = f"{base.name}, changed"
        return replace(base, **sizes)
    for name in _NEEDED:
        if name not in sizes:
            raise ValueError(f"--sizes has no {name}; it names at least {', '.join(_NEEDED)}.")
    sizes.setdefault("ffn", 4 * sizes["hidden"])
    if sizes.get("gated"):
        sizes.setdefault("norm_parameters", 1)  # as Llama and those after it
    return Decoder("by sizes", **sizes)
