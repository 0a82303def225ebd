"""Times of collectives fitted on some sizes and asked for others, on tables that were measured elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from course_lib.cost import A100_ALL_REDUCE, FittedTimes, fit_growing_latency, fit_times

MIB = 1 << 20

# (size in bytes, time in seconds) of all-reduces by nccl-tests, out of place, each size twice the one before.
# Eight GPUs, 32 KiB to 32 MiB (github.com/kvcache-ai/Mooncake, pull request 3484); the way changes at 1 MiB.
EIGHT_GPUS = [
    (2**15 * 2**i, time_us / 1e6)
    for i, time_us in enumerate((18.66, 18.95, 19.25, 19.54, 20.39, 27.76, 40.66, 53.24, 81.16, 121.33, 195.40))
]
# Two RTX 2080 Ti with a bridge, 32 KiB to 64 MiB (github.com/NVIDIA/nccl-tests, issue 44)
TWO_GPUS = [
    (2**15 * 2**i, time_us / 1e6)
    for i, time_us in enumerate((13.39, 16.57, 23.07, 31.38, 36.0, 47.38, 70.44, 120.1, 212.5, 418.5, 817.8, 1568.3))
]


def errors(curve, samples) -> tuple[float, float]:
    """Mean relative error, of all sizes and of those from 1 MiB up."""
    found = np.array([abs(curve.time_s(size) / time_s - 1) for size, time_s in samples])
    large = [size >= MIB for size, _ in samples]
    return float(found.mean()), float(found[large].mean())


@pytest.mark.parametrize("table", [EIGHT_GPUS, TWO_GPUS])
@pytest.mark.parametrize(("step", "largest"), [(2, 0.05), (4, 0.06)])
def test_sizes_between_the_samples_are_within_10_percent_and_from_1_mib_up_within_5(table, step, largest):
    samples = [row for i, row in enumerate(table) if i % step == 0 or row is table[-1]]
    between = [row for row in table if row not in samples]
    mean, large = errors(fit_times(samples), between)
    assert mean < 0.10
    assert large < largest
    assert mean < errors(fit_growing_latency(samples), between)[0]


def test_a_row_left_out_of_a_sparse_table_is_found_as_well():
    """Steps of 4 to 32: the curve carries it, where drawing lines between samples misses by 17 %."""
    found = []
    for i, row in enumerate(A100_ALL_REDUCE[1:-1], start=1):
        found.append(errors(fit_times(A100_ALL_REDUCE[:i] + A100_ALL_REDUCE[i + 1 :]), [row])[0])
    assert np.mean(found) < 0.055
    assert max(found) < 0.08


def test_it_passes_through_its_samples_and_goes_on_beyond_them():
    fitted = fit_times(EIGHT_GPUS)
    assert errors(fitted, EIGHT_GPUS)[0] < 1e-9
    (size, time_s), (first, first_s) = EIGHT_GPUS[-1], EIGHT_GPUS[0]
    assert fitted.time_s(first / 4) == pytest.approx(first_s)
    assert 1.5 * time_s < fitted.time_s(2 * size) < 2 * time_s
    assert fitted.time_s(0) == 0
    twice = fit_times([*EIGHT_GPUS, (first, 3 * first_s)])
    assert twice.time_s(first) == pytest.approx(2 * first_s)


def test_bad_input_gets_a_sentence():
    curve = fit_growing_latency(EIGHT_GPUS)
    for corrections in ((), ((2.0, 1.0), (1.0, 1.0)), ((0.0, 1.0),)):
        with pytest.raises(ValueError, match="above zero and increasing"):
            FittedTimes(curve, corrections)
    with pytest.raises(ValueError, match="factor is 0"):
        FittedTimes(curve, ((1.0, 0.0),))
    with pytest.raises(ValueError, match="two different sizes"):
        fit_times([(4096, 1.0)])
    with pytest.raises(ValueError, match="size_bytes is -1"):
        fit_times(EIGHT_GPUS).time_s(-1)
