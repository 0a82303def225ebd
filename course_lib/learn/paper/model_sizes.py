"""A model in the words of a problem: how large it is, and who has published its sizes."""

from __future__ import annotations

from course_lib.plan.inputs.model import Decoder

__all__ = ["sized", "sizes_source"]

_PAPERS = {
    "gpt-3-175b": "Brown et al. (2020), table 2.1; vocabulary of Narayanan et al. (2021)",
    "megatron-530b": "Narayanan et al. (2021), table 1",
}


def sized(model: Decoder) -> str:
    """Its name and how many parameters it has: "llama-3-8b (8.03 billion parameters)"."""
    return f"{model.name} ({model.parameters / 1e9:.2f} billion parameters)"


def sizes_source(model: Decoder) -> str:
    """Where its sizes come from, as a source of a problem."""
    return f"Sizes of {model.name}: {_PAPERS.get(model.name, 'its published config.json')}."
