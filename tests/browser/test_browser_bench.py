"""``course bench page`` changes every explorer in the browser and comes to its end; what it measures is not judged."""

from __future__ import annotations

import pytest

from course_lib.authoring.bench import page

pytestmark = [pytest.mark.long, pytest.mark.limit_s(600)]


def test_each_explorer_has_a_line_for_the_screen_and_one_for_its_drawing(capsys):
    assert page.main(["--rounds", "1"]) == 0
    told = capsys.readouterr().out
    for name in page._MADE:
        assert f"{name}: control to screen" in told
        assert f"{name}: drawing alone" in told
