"""What the page says in numbers: rates, shares of bars, and every refusal counted."""

from __future__ import annotations

import re

import pytest

from course_lib.plan import MODELS, Constants, Job, Listing, Software, cluster_of, list_layouts
from course_lib.plan.output.report import details, rates, why_not


@pytest.fixture(scope="module")
def listing() -> Listing:
    job = Job(MODELS["llama-3-8b"], 8192, 16)
    return list_layouts(job, cluster_of("8xh100", gpus=16), Constants(), Software())


def test_rates_by_hand(listing: Listing) -> None:
    """Three passes over the matrices, and over half of attention's scores; 989 TFLOP/s a GPU."""
    option = listing.options[3]
    layer = 2 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336) + 2 * 8192 * 4096
    token_flops = 3 * (32 * layer + 2 * 128256 * 4096)
    found, tokens = rates(listing, option), 16 * 8192
    assert found["step_s"] == option.step_s
    assert found["tokens_per_s"] == pytest.approx(tokens / option.step_s)
    assert found["tokens_per_s_per_gpu"] == pytest.approx(tokens / option.step_s / 16)
    assert found["mfu"] == pytest.approx(token_flops * tokens / option.step_s / (16 * 989e12))


def test_shares_of_the_parts_are_of_the_whole(listing: Listing) -> None:
    for part in details(listing, listing.options[0]).split("\n\n"):
        shares = [int(share) for share in re.findall(r" (\d+)%", part)]
        assert abs(sum(shares) - 100) <= len(shares) / 2
        assert max(part.count("#" * size) > 0 and size for size in range(1, 40)) == 30


@pytest.mark.parametrize("most", [1, 2, 100])
def test_every_refusal_is_counted(most: int, listing: Listing) -> None:
    lines = [line for line in why_not(listing, most=most) if re.match(r" +\d+  ", line)]
    assert sum(int(line.split()[0]) for line in lines) == len(listing.refusals)
    assert any("other reasons" in line for line in lines) == (len(listing.reasons()) > most)
