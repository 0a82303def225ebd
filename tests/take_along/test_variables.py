"""The table of variables: each is read by whom it says, and a symptom finds those that have to do with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from course_lib.take_along import SYMPTOMS, VARIABLES, variables_for

TORCH = Path(torch.__file__).parent
OF_TORCH = [one for one in VARIABLES if one.reader in ("torch", "torchrun")]


@pytest.mark.parametrize("variable", OF_TORCH, ids=lambda one: one.name)
def test_torch_reads_it_where_the_table_says(variable):
    assert variable.name.encode() in (TORCH / variable.source).read_bytes()


def test_what_is_not_torchs_names_its_document():
    others = [one for one in VARIABLES if one not in OF_TORCH]
    assert {one.reader for one in others} == {"NCCL", "CUDA"}
    assert all(one.source.startswith("NVIDIA, ") for one in others)
    assert all(one.name.startswith("NCCL_") == (one.reader == "NCCL") for one in VARIABLES)


def test_each_is_there_once_and_has_a_symptom():
    assert len({one.name for one in VARIABLES}) == len(VARIABLES)
    for one in VARIABLES:
        assert one.symptoms
        assert set(one.symptoms) <= set(SYMPTOMS)


def test_defaults_that_this_torch_has():
    header = (TORCH / "include/torch/csrc/distributed/c10d/FlightRecorder.hpp").read_text()
    assert '{"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, 2000)' in header
    by_name = {one.name: one for one in VARIABLES}
    assert by_name["TORCH_FR_BUFFER_SIZE"].default == "2000"


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_finds_its_variables(symptom):
    found = variables_for(symptom)
    assert found == tuple(one for one in VARIABLES if symptom in one.symptoms)
    assert found
    text = str(found)
    assert all(one.name in text for one in found)
    assert ("take it out" in text) == any(not one.is_for_production for one in found)


def test_another_word_hears_which_there_are():
    with pytest.raises(ValueError, match=r"'slow' is none of the symptoms: 'hangs at the start', "):
        variables_for("slow")


def test_what_is_for_a_search_says_so_on_its_line():
    for one in VARIABLES:
        assert one.is_for_production == ("never leave it" not in one.set_it), one.name
