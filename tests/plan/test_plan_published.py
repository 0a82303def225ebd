"""Published runs: reading them, fitting constants to them, judging the planner by them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from published_rows import ROW, write

from course_lib.authoring.bench.published_runs import published
from course_lib.authoring.bench.published_runs.published_scores import (
    Errors,
    choices,
    kendall_tau,
    null_share,
)
from course_lib.plan import (
    KINDS,
    Constants,
    load_profiles,
    profile_of,
    read_runs,
    typical_constants,
    typical_of_gpu,
)
from course_lib.plan.inputs.error_bands import save_bands
from course_lib.plan.inputs.profiles import PROFILES_FILE, constants_elsewhere, profiles_alike, save_constants
from course_lib.plan.runs.fit import fit_constants, thinned
from course_lib.plan.runs.predict_run import prepared


def layouts(constants: Constants, path) -> list[dict[str, str]]:
    """Rows of several layouts, timed by the planner itself with some constants."""
    rows = []
    for tp, pp, dp, batch in [
        *((1, 1, 16, 64), (2, 1, 8, 64), (4, 1, 4, 64), (8, 1, 2, 64), (1, 2, 8, 64), (2, 2, 4, 64)),
        *((1, 1, 16, 32), (8, 2, 1, 64), (16, 1, 1, 64), (1, 4, 4, 64)),
    ]:
        rows.append({**ROW, "tp": str(tp), "pp": str(pp), "dp": str(dp), "batch": str(batch)})
    runs, _ = read_runs(write(path, *rows))
    for row, run in zip(rows, runs, strict=True):
        row["iter_s"] = str(prepared(run, profile_of("Nowhere", "A100-80GB")).step_s(constants))
    return rows


def test_what_a_source_leaves_open_is_chosen(tmp_path) -> None:
    open_row = {**ROW, "micro_batch": "", "pp": "2", "dp": "4"}
    (run, told), _ = read_runs(write(tmp_path / "runs.csv", open_row, ROW))
    profile = profile_of("Nowhere", "A100-80GB")
    several = prepared(run, profile)
    assert len(several.layouts) > 5
    assert several.step_s(Constants()) <= min(
        prepared(run, profile).__class__(run, profile, (one,)).step_s(Constants()) for one in several.layouts
    )
    assert prepared(told, profile).layouts == (told.layout,)


def test_where_nothing_fits_by_our_count_the_chunks_stay_open(tmp_path) -> None:
    huge = {
        **ROW,
        "micro_batch": "",
        "pp": "2",
        "dp": "4",
        "layers": "24",
        "hidden": "32768",
        "ffn": "131072",
    }
    (run,), _ = read_runs(write(tmp_path / "runs.csv", huge))
    found = prepared(run, profile_of("Nowhere", "A100-80GB")).layouts
    assert {layout.micro_batch for layout in found} == {1}
    assert len({layout.chunks for layout in found}) == len(found) == 12  # layers by cost: in any number


def test_a_fit_finds_constants_again(tmp_path) -> None:
    truth = Constants(matmul_share=0.6, inside_share=0.4, outside_share=0.3)
    runs, _ = read_runs(write(tmp_path / "runs.csv", *layouts(truth, tmp_path / "made.csv")))
    profile = profile_of("Nowhere", "A100-80GB")
    rows = [prepared(run, profile) for run in runs]
    found = fit_constants(rows)
    errors = [abs(row.step_s(found) / row.run.step_s - 1) for row in rows]
    assert max(errors) < 0.03
    assert found.matmul_share == pytest.approx(0.6, rel=0.12)  # typical is 0.72
    with pytest.raises(ValueError, match="None of the runs has a time"):
        fit_constants([])


def test_scores() -> None:
    errors = Errors.of([(1.1, 1.0), (0.7, 1.0)])
    assert str(errors).split() == ["20.0%", "20.0%", "30.0%", "-10.0%"]
    assert kendall_tau([(1, 1), (2, 2), (3, 3)]) == 1
    assert kendall_tau([(1, 3), (2, 2), (3, 1)]) == -1


def test_regret_is_what_the_pick_lost(tmp_path) -> None:
    rows = [{**ROW, "iter_s": time} for time in ("2.0", "3.0", "4.0")]
    runs, _ = read_runs(write(tmp_path / "runs.csv", *rows))
    ready = [prepared(run, profile_of("Nowhere", "A100-80GB")) for run in runs]
    (right,) = choices(list(zip(ready, [1.0, 2.0, 3.0], strict=True)))
    assert (right.regret, right.tau) == (0, 1)
    (wrong,) = choices(list(zip(ready, [3.0, 1.0, 2.0], strict=True)))
    assert wrong.regret == pytest.approx(0.5)
    assert choices(list(zip(ready[:2], [1.0, 2.0], strict=True))) == []
    runs_and_times = list(zip(ready, [3.0, 1.0, 2.0], strict=True))
    (second,) = choices(runs_and_times, [True, False, True])  # the fastest does not fit
    assert (second.regret, second.tau) == (1.0, wrong.tau)
    (none,) = choices(runs_and_times, [False, False, False])
    assert none == wrong


def test_profiles_stand_in_their_bounds_and_say_where_they_come_from() -> None:
    profiles = load_profiles()
    assert len(profiles) >= 12
    for profile in profiles.values():
        assert profile.source
        assert profile.fitted_on
    assert len(KINDS) <= 8
    assert json.loads(PROFILES_FILE.read_text())["origin"]["command"].startswith("course bench published")


def test_an_unknown_cluster_is_typical_of_its_gpu_and_an_unknown_gpu_is_refused() -> None:
    others = [profile for (_, gpu), profile in load_profiles().items() if gpu == "A100-80GB"]
    assert profile_of("Nowhere", "A100-80GB").constants == typical_constants(others)
    assert typical_constants([]) == Constants()
    with pytest.raises(ValueError, match=r"gpu is .A100.; it is one of .* Did you mean"):
        profile_of("Nowhere", "A100")


def test_a_gpu_is_typical_of_measured_ones_with_its_rates_else_with_its_peak_else_with_the_nearest() -> None:
    profiles = list(load_profiles().values())
    h100 = [one for one in profiles if one.gpu.name == "H100-80GB"]
    assert any(one.fitted_on == 1 for one in h100)
    assert profiles_alike(989e12, 3.35e12) == [one for one in h100 if one.fitted_on > 1]
    assert typical_of_gpu(989e12, 3.35e12) == typical_constants(h100)
    same_peak = [one for one in profiles if one.gpu.peak_flops_per_s == 989e12]
    assert len({one.gpu.name for one in same_peak}) > 1
    assert typical_of_gpu(989e12, 4.8e12) == typical_constants(same_peak) != typical_constants(h100)
    slowest = [one for one in profiles if one.gpu.peak_flops_per_s == 130.8e12]
    assert typical_of_gpu(1.0, 3.35e12) == typical_constants(slowest)
    assert profiles_alike(2.25e15, 7.7e12) == [one for one in same_peak if one.fitted_on > 1]
    known = {("Selene", "A100-80GB"): load_profiles()["Selene", "A100-80GB"]}
    alone = list(known.values())
    assert profile_of("Nowhere", "A100-40GB", known).constants == typical_constants(alone, alone)
    for rates in ((0.0, 1e12), (-1e15, 1e12), (float("nan"), 1e12), (1e15, 0.0)):
        with pytest.raises(ValueError, match="_per_s"):
            typical_of_gpu(*rates)


def test_a_cluster_counts_for_as_much_as_its_runs_tell_and_the_typical_value_for_one() -> None:
    selene = load_profiles()["Selene", "A100-80GB"]
    knows, guesses = (
        replace(selene, constants=Constants(matmul_share=share), told={"matmul_share": told})
        for share, told in ((0.9, 1.0), (0.4, 0.0))
    )
    typical = KINDS["matmul_share"].typical
    assert typical_constants([guesses]).matmul_share == pytest.approx(typical)
    assert typical_constants([knows]).matmul_share == pytest.approx((0.9 * typical) ** 0.5)
    assert typical_constants([knows, guesses]) == typical_constants([knows])


def test_a_host_that_blocks_and_a_network_known_to_be_slow_tell_nothing_of_others() -> None:
    jean_zay = load_profiles()["Jean Zay OPA", "A100-80GB"]
    assert (jean_zay.tells("host_layer_s"), jean_zay.tells("outside_share")) == (0.0, 0.0)
    assert constants_elsewhere(jean_zay).outside_share == jean_zay.network_share == 0.27
    assert 0 < jean_zay.tells("matmul_share") <= 1
    efa = load_profiles()["H100 EFA", "H100-80GB"]
    assert (efa.tells("outside_share"), constants_elsewhere(efa).outside_share) == (0.0, 0.46)
    assert replace(jean_zay, told={}).tells("latency_s") == 1.0


def test_constants_elsewhere_are_those_of_all_other_clusters() -> None:
    profiles = load_profiles()
    own = profiles["foundry", "H100-80GB"]
    others = {key: one for key, one in profiles.items() if key[0] != "foundry"}
    assert constants_elsewhere(own) == profile_of("Nowhere", "H100-80GB", others).constants
    assert constants_elsewhere(own) != profile_of("Nowhere", "H100-80GB").constants


def test_constants_are_kept_beside_the_facts(tmp_path) -> None:
    file = tmp_path / "profiles.json"
    shutil.copy(PROFILES_FILE, file)
    before = load_profiles(file)
    save_constants({("vTrain", "A100-80GB"): (Constants(matmul_share=0.5), 3)}, {"command": "a test"}, file)
    after = load_profiles(file)
    changed = after["vTrain", "A100-80GB"]
    assert (changed.constants.matmul_share, changed.fitted_on) == (0.5, 3)
    assert changed.source == before["vTrain", "A100-80GB"].source
    assert after["Selene", "A100-80GB"] == before["Selene", "A100-80GB"]


@pytest.fixture
def own_profiles(tmp_path, monkeypatch):
    """A copy of the data file, so that a test never writes the course's own."""
    file = tmp_path / "profiles.json"
    shutil.copy(PROFILES_FILE, file)
    monkeypatch.setattr(published, "load_profiles", lambda: load_profiles(file))
    monkeypatch.setattr(
        published, "save_constants", lambda fitted, origin, told: save_constants(fitted, origin, file, told)
    )
    bands = file.with_name("error_bands.json")
    monkeypatch.setattr(published, "save_bands", lambda found, origin: save_bands(found, origin, bands))
    return file


def test_the_bench_prints_tables_and_names_what_it_cannot_predict(tmp_path, capsys) -> None:
    rows = [ROW, {**ROW, "table": "u", "memory_gb": "30"}, {**ROW, "gpus": "9"}, {**ROW, "gpu": "Z9"}]
    assert published.main([str(write(tmp_path / "runs.csv", *rows)), "--rows"]) == 0
    out = capsys.readouterr().out
    assert "4 rows, 2 of them cannot be predicted" in out
    assert "2 of them are of clusters without constants of their own" in out
    assert "typical of their GPU: Nowhere (A100-80GB), 2" in out
    assert "regret is how much slower" in out
    assert "line 4 (t): gpus is 9" in out
    assert "line 5 (t): gpu is 'Z9'" in out
    assert "null model" in out
    assert "Memory of the fullest GPU" in out


def test_a_cluster_with_constants_of_its_own_is_not_told_of(tmp_path, capsys) -> None:
    assert published.main([str(write(tmp_path / "runs.csv", {**ROW, "cluster": "vTrain"}))]) == 0
    assert "without constants of their own" not in capsys.readouterr().out


def test_the_bench_fits_on_one_half_and_judges_the_other(tmp_path, capsys, own_profiles) -> None:
    before = own_profiles.read_text()
    rows = layouts(Constants(matmul_share=0.6), tmp_path / "made.csv")
    single = {**ROW, "table": "one", "cluster": "vTrain"}
    file = write(tmp_path / "runs.csv", *({**row, "cluster": "vTrain"} for row in rows), single)
    assert published.main([str(file), "--half"]) == 0
    out = capsys.readouterr().out
    assert out.count("judged on the others") == 2
    assert "one: its one row was fitted" in out
    assert "regret" in out
    assert own_profiles.read_text() == before


def test_the_bench_keeps_its_tables(tmp_path, capsys, own_profiles) -> None:
    rows = [{**row, "cluster": "vTrain", "memory_gb": "30"} for row in layouts(Constants(), tmp_path / "made.csv")]
    file, kept = write(tmp_path / "runs.csv", *rows), tmp_path / "kept.json"
    assert published.main([str(file), "--half", "--json", str(kept)]) == 0
    printed, record = capsys.readouterr().out, json.loads(kept.read_text())
    assert record["command"] == "course bench published runs.csv --half"
    assert record["rows"] == len(rows)
    assert len(record["tables"]) == 2
    for way, found in record["tables"].items():
        assert f"== {way}" in printed
        (table,) = found.values()
        assert table["time"]["rows"] == table["memory"]["rows"] == len(rows) // 2
        assert f"{table['time']['mean']:8.1%}" in printed
        assert f"{table['null_model']['largest']:8.1%}" in printed
        assert f"regret {table['choices']['regret']:5.1%}" in printed
        assert table["memory"]["too_low"] <= 0
    assert published.main([str(file), "--json", str(tmp_path / "no" / "kept.json")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err


def test_the_bench_keeps_a_fit(tmp_path, own_profiles) -> None:
    row = {**ROW, "cluster": "vTrain"}
    assert published.main([str(write(tmp_path / "runs.csv", row)), "--fit"]) == 0
    kept = json.loads(own_profiles.read_text())
    (vtrain,) = [one for one in kept["clusters"] if one["cluster"] == "vTrain"]
    assert vtrain["fitted_on"] == 1
    assert kept["origin"]["command"] == "course bench published runs.csv --fit"
    assert not own_profiles.with_name("error_bands.json").exists()  # one run makes no band


def test_the_bench_says_what_is_wrong_with_a_file(tmp_path, capsys) -> None:
    assert published.main([str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert published.main([str(write(tmp_path / "empty.csv"))]) == 1
    assert "no row to predict" in capsys.readouterr().err


def test_a_table_with_many_rows_is_thinned_evenly(tmp_path) -> None:
    rows = [{**ROW, "batch": str(16 * size)} for size in range(1, 401)]
    runs, _ = read_runs(write(tmp_path / "runs.csv", *rows))
    ready = [prepared(run, profile_of("Nowhere", "A100-80GB")) for run in runs]
    kept = thinned(ready)
    assert len(kept) == 150
    assert kept[0] is ready[0]
    assert ready.index(kept[-1]) > 390


def test_the_null_model_is_one_share(tmp_path) -> None:
    runs, _ = read_runs(write(tmp_path / "runs.csv", *({**ROW, "iter_s": time} for time in ("1", "2", "4"))))
    ready = [prepared(run, profile_of("Nowhere", "A100-80GB")) for run in runs]
    assert null_share(ready) == pytest.approx(ready[0].one_share_s / 2)


def test_one_strange_run_does_not_move_constants_far(tmp_path) -> None:
    profile = profile_of("Nowhere", "A100-80GB")
    (run,), _ = read_runs(write(tmp_path / "runs.csv", ROW))
    (slow,), _ = read_runs(
        write(tmp_path / "slow.csv", {**ROW, "iter_s": str(4 * prepared(run, profile).step_s(Constants()))})
    )
    found = fit_constants([prepared(slow, profile)])
    for name, kind in KINDS.items():
        assert abs(getattr(found, name) / kind.typical - 1) < 0.35, name
