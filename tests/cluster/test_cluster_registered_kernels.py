"""Kernels that a person's code has registered are told from those of PyTorch's parts that are imported late."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run(code: str) -> str:
    """In a process of its own: a kernel cannot always be taken away again."""
    code = "import torch\nfrom course_lib.cluster.state import registered_kernels\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_a_part_of_pytorch_registers_when_it_is_imported_late_is_nobodys():
    said = run(
        """
        before = registered_kernels.kernels()
        number = len(torch.library._impls)
        import torch.distributed._functional_collectives
        assert len(torch.library._impls) > number, "it was imported already, so nothing is shown"
        print(sorted(registered_kernels.kernels() - before))
        """
    )
    assert said == "[]"


def test_a_persons_kernels_are_seen_whichever_way_they_are_registered(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch
            from course_lib.cluster.state import registered_kernels
            registered_kernels.accept()
            library = torch.library.Library("aten", "IMPL")
            library.impl("mul.Tensor", lambda a, b: a, "CPU")
            torch.library.impl("aten::add.Tensor", "CPU")(lambda a, b, alpha=1: a)
            print(sorted(registered_kernels.kernels()))
            del library
            torch.library.Library("aten", "IMPL").impl("mul.Tensor", lambda a, b: b, "CPU")
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['aten/add.Tensor/CPU', 'aten/mul.Tensor/CPU']"


@pytest.mark.long
def test_a_library_made_before_anybody_looked_can_still_be_taken_away(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch
            library = torch.library.Library("aten", "IMPL")
            library.impl("mul.Tensor", lambda a, b: a, "CPU")
            from course_lib.cluster.state import registered_kernels
            assert "aten/mul.Tensor/CPU" in registered_kernels.kernels()
            library._destroy()
            assert "aten/mul.Tensor/CPU" not in registered_kernels.kernels()
            library = torch.library.Library("aten", "IMPL")
            library.impl("mul.Tensor", lambda a, b: b, "CPU")
            assert "aten/mul.Tensor/CPU" in registered_kernels.kernels()
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
