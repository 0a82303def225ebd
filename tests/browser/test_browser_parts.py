"""Every lesson part in a real JupyterLab, run unanswered: as it opens, at two widths, in two themes."""

from __future__ import annotations

import pytest
from browser_page import PARTS, THEMES

pytestmark = [pytest.mark.long, pytest.mark.limit_s(900)]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_unanswered_and_can_be_read(lesson, part):
    page = lesson(part)
    assert page.run_all(), page.tracebacks()
    assert page.tracebacks() == []
    assert page.pictures_without_text() == []
    assert page.broken_pictures() == []
    wrong = {}
    for theme in THEMES:
        page.theme(theme)
        for pixels in (1280, 800):
            page.width(pixels)
            wrong[theme, pixels] = page.axe()
            if pixels == 1280:
                wrong[theme, "too wide"] = page.too_wide()
    assert not any(wrong.values()), {setting: found for setting, found in wrong.items() if found}
    assert page.problems == []
