"""What the figures draw, read back from their axes, against numbers worked out by hand."""

import json
import math
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.offsetbox import AnnotationBbox

from driftlaw.collect import collect
from driftlaw.figures import NAMES
from driftlaw.figures.curves import curves
from driftlaw.figures.data import lr_text, read
from driftlaw.figures.draw import draw_all, save
from driftlaw.figures.ratios import ratios
from driftlaw.figures.score_by_delay import score_by_delay
from driftlaw.figures.status_map import status_map
from driftlaw.figures.style import look, theme
from driftlaw.objectives.catalog import CATALOG
from tests.figures.small_study import load, write_run

STUDY = """
study: drawn
learner: { lr: 1.0e-4, updates: 20 }
seeds: [0, 1, 2]
grid:
  - objective.name: [grpo, gmc]
    schedule: [{ delay: 0, interval: 1 }, { delay: 4, interval: 1 }, { delay: 0, interval: 4 }]
  - objective.name: grpo
    schedule: { delay: 0, interval: 4 }
    learner.lr: 1.0e-2
"""
HALF = 2.919986 * 0.1 / math.sqrt(3)  # 90 % Student half-width of x - 0.1, x, x + 0.1


def final(run):
    """0.6 + 0.1 (seed - 1), 0.1 more for gmc, 0.05 less with staleness."""
    s = run.settings
    stale = s.schedule.delay > 0 or s.schedule.interval > 1
    return 0.6 + 0.1 * (s.seed - 1) + 0.1 * (s.objective.name == "gmc") - 0.05 * stale


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of 21 runs; the three at lr 1e-2 collapsed."""
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = load(STUDY)
        for run in study.runs:
            seed = run.settings.seed
            if run.settings.learner.lr == 1e-2:
                write_run(study, run, {0: 0.25, 5: 0.02, 10: 0.0}, "collapsed", (5, 10))
                continue
            columns = {
                "reward_mean": [0.1 * seed] * 20,
                "traj_ratio_m2": [10.0**seed] * 20,
                "group_weight_mass_mean": [0.9 + 0.01 * seed] * 20,
                "group_ratio_mass_mean": [1.0 + 0.01 * seed] * 20,
            }
            scores = {0: 0.25, 10: 0.3 + 0.1 * seed, 20: final(run)}
            write_run(study, run, scores, ledger_columns=columns)
        collect(study, folder / "tables")
    return folder


@pytest.fixture(scope="module")
def data(folder):
    return read(load(STUDY, folder), folder / "tables")


def drawn(draw, data):
    with theme():
        return draw(data)[0]


def lines(axes, gid):
    return [line for line in axes.lines if line.get_gid() == gid]


def test_curves_are_seeds_and_their_mean(data):
    figure = drawn(curves, data)
    first = figure.axes[0]
    assert first.get_title() == "D = 0, I = 1 (lag 0)\nlr 1e-4"
    (mean,) = lines(first, "gmc:mean")
    assert mean.get_xdata().tolist() == [0, 10, 20]
    # Seeds 0.3, 0.4, 0.5 at update 10; 0.6, 0.7, 0.8 at update 20.
    assert mean.get_ydata() == pytest.approx([0.25, 0.4, 0.7])
    seeds = [line for line in first.lines if str(line.get_gid()).startswith("gmc:gmc-")]
    assert sorted(line.get_ydata()[-1] for line in seeds) == pytest.approx([0.6, 0.7, 0.8])
    assert [line.get_ydata()[0] for line in lines(first, "base")] == [0.25]


def test_collapsed_runs_end_with_a_cross(data):
    figure = drawn(curves, data)
    (last,) = [a for a in figure.axes if a.get_title() == "D = 0, I = 4\nlr 0.01"]
    crosses = lines(last, "collapse")
    assert [(c.get_xdata()[0], c.get_ydata()[0]) for c in crosses] == [(10, 0.0)] * 3
    assert all(c.get_marker() == "X" for c in crosses)


def test_training_reward_is_drawn_below(data):
    figure = drawn(curves, data)
    columns = len(figure.axes) // 2
    (mean,) = lines(figure.axes[columns], "grpo:mean")
    assert mean.get_ydata() == pytest.approx([0.1] * 20)
    assert "training reward" in figure.axes[columns].get_ylabel()


def test_final_scores_have_student_intervals(data):
    figure = drawn(score_by_delay, data)
    titles = [a.get_title() for a in figure.axes]
    assert titles == ["delay D, at I = 1", "interval I, at D = 0"]
    for axes, lags in zip(figure.axes, ([0, 4], [0, 1.5]), strict=True):
        bars = {c.lines[0].get_gid(): c for c in axes.containers}
        for method, means in (("grpo", [0.6, 0.55]), ("gmc", [0.7, 0.65])):
            line, _, (stems,) = bars[f"mean:{method}"].lines
            assert line.get_xdata().tolist() == lags
            assert line.get_ydata() == pytest.approx(means)
            ends = [(low, high) for (_, low), (_, high) in stems.get_segments()]
            assert np.array(ends) == pytest.approx(np.array([[m - HALF, m + HALF] for m in means]))
        (seeds,) = lines(axes, "stable:gmc")
        assert sorted(seeds.get_ydata()) == pytest.approx([0.55, 0.6, 0.65, 0.7, 0.75, 0.8])


def test_status_map_shows_counts_at_their_place(data):
    figure = drawn(status_map, data)
    (axes,) = [a for a in figure.axes if a.get_title() == "grpo\ninterval I, at D = 0"]
    boxes = [a for a in axes.artists if isinstance(a, AnnotationBbox)]
    assert [box.get_gid() for box in boxes] == [
        "cell:1:0.0001:stable",
        "cell:4:0.0001:stable",
        "cell:4:0.01:collapsed",
    ]
    assert [box.xy for box in boxes] == [(1, 1e-4), (4, 1e-4), (4, 1e-2)]
    assert [(t.get_text(), t.xy) for t in axes.texts] == [
        ("0/3", (1, 1e-4)),
        ("0/3", (4, 1e-4)),
        ("3/3", (4, 1e-2)),
    ]
    (bracket,) = lines(axes, "bracket")
    assert list(bracket.get_xdata()) == [4, 4]
    assert list(bracket.get_ydata()) == [1e-4, 1e-2]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_ratio_means_are_geometric_where_the_axis_is_logarithmic(data):
    figure = drawn(ratios, data)
    rows = {a.get_ylabel().replace("\n", " "): a for a in figure.axes if a.get_ylabel()}
    # Seeds 1, 10, 100.
    moment = rows["trajectory ratio, second moment"]
    assert lines(moment, "mean")[0].get_ydata() == pytest.approx([10.0] * 20)
    mass = rows["mean group mass (1)"]
    assert lines(mass, "mean")[0].get_ydata() == pytest.approx([0.91] * 20)
    assert lines(mass, "before")[0].get_ydata() == pytest.approx([1.01] * 20)


def test_a_mean_ends_before_only_some_collapse(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load("study: mixed\nseeds: [0, 1]\nlearner: { updates: 20 }\n")
    write_run(study, study.runs[0], {0: 0.2, 10: 0.4, 20: 0.6})
    write_run(study, study.runs[1], {0: 0.2, 10: 0.6, 15: 0.1, 20: 0.0}, "collapsed", (15, 20))
    collect(study, tmp_path / "tables")
    figure = drawn(curves, read(study, tmp_path / "tables"))
    (mean,) = lines(figure.axes[0], "gmc:mean")
    assert mean.get_xdata().tolist() == [0, 10]
    assert mean.get_ydata() == pytest.approx([0.2, 0.5])


def test_a_method_looks_the_same_in_every_figure(data):
    gmc = look("gmc")
    for draw, gid in ((curves, "gmc:mean"), (score_by_delay, "mean:gmc")):
        figure = drawn(draw, data)
        found = [line for axes in figure.axes for line in lines(axes, gid)]
        assert found
        assert {(line.get_color(), line.get_marker()) for line in found} == {
            (gmc.color, gmc.marker)
        }


def test_objectives_are_told_apart_without_colour_and_those_of_the_ablation_by_colour_too():
    """Ten colours serve fifteen objectives: marker and dashes differ always, so colour never stands alone."""
    looks = [look(name) for name in CATALOG]
    assert len({(k.marker, k.dash) for k in looks}) == len(looks)
    ablation = ("tic_mask", "tic_truncate", "gmc", "gmc_waterfill", "grpo")
    assert len({look(name).color for name in ablation}) == len(ablation)


def test_draw_all_writes_every_name_and_captions_name_tables(folder):
    paths = draw_all(load(STUDY, folder), folder / "tables", folder / "figures")
    assert [p.name for p in paths] == [
        *(f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")),
        "captions.json",
    ]
    captions = json.loads((folder / "figures" / "captions.json").read_text())
    assert set(captions) == set(NAMES)
    for caption in captions.values():
        assert set(caption) == {"title", "caption", "table", "category"}
        assert (folder / caption["table"]).is_file()
        assert caption["table"] in caption["caption"]
    assert "90% Student t intervals" in captions["score_by_delay"]["caption"]
    assert "18 runs, 3 a point" in captions["score_by_delay"]["caption"]
    assert "21 runs ended (18 stable, 3 collapsed, 0 censored" in captions["status_map"]["caption"]


def test_equal_figures_are_equal_bytes_without_a_date(data, tmp_path):
    for kind in ("svg", "png"):
        paths = [tmp_path / f"{i}.{kind}" for i in range(2)]
        for path in paths:
            with theme():
                save(status_map(data)[0], path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
    assert not [e for e in ET.parse(tmp_path / "0.svg").iter() if e.tag.endswith("}date")]


@pytest.mark.parametrize(
    ("status", "scores", "words"),
    [
        ("failed", {}, "1 of 1 run failed"),
        ("stable", {0: 0.2, 2: 0.3}, "One seed"),
        ("censored", {0: 0.2}, "No run stable"),
    ],
)
def test_poor_studies_are_drawn_and_say_what_is_missing(
    status, scores, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    study = load("study: poor\nlearner: { updates: 2 }\n")
    write_run(study, study.runs[0], scores, status)
    if scores == {0: 0.2}:  # stopped after one update, never evaluated again
        scores[1] = 0.2
        write_run(study, study.runs[0], scores, status)
    collect(study, Path("tables"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read(study, Path("tables"))
        figures = [drawn(draw, data) for draw in (curves, status_map, score_by_delay, ratios)]
        for i, figure in enumerate(figures):
            save(figure, Path(f"{i}.png"))
    said = " ".join(
        t.get_text() for f in figures for t in f.findobj(lambda a: hasattr(a, "get_text"))
    )
    assert words in said.replace("\n", " ")


def test_what_else_varies_becomes_part_of_the_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load(
        "study: eps\nlearner: { updates: 2 }\ngrid:\n"
        "  - { objective.name: gmc, objective.eps: [0.1, 0.4] }\n  - { objective.name: grpo }\n"
    )
    for run in study.runs:
        write_run(study, run, {0: 0.2, 2: 0.3})
    collect(study, Path("tables"))
    data = read(study, Path("tables"))
    assert data.methods == ["gmc, eps=0.1", "gmc, eps=0.4", "grpo"]
    assert look("gmc", 0).color == look("gmc", 1).color
    assert look("gmc", 0).dash != look("gmc", data.variant["gmc, eps=0.4"]).dash


@pytest.mark.parametrize(
    ("lr", "text"), [(1e-4, "1e-4"), (2.5e-3, "2.5e-3"), (0.05, "0.05"), (1.0, "1")]
)
def test_learning_rates_read_as_people_write_them(lr, text):
    assert lr_text(lr) == text
