"""The report of a hand-made study: parsed, its numbers compared with the tables."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from driftlaw.collect import TABLES, collect
from driftlaw.figures.data import read
from driftlaw.figures.draw import draw_all
from driftlaw.files import write_json
from driftlaw.laws.fit import fit_by
from driftlaw.report import results
from driftlaw.report.fits import fit_groups
from driftlaw.report.html import write_report
from tests.figures.small_study import load, write_run

STUDY = """
study: told
description: Does <b>staleness</b> hurt?
learner: { lr: 1.0e-4, updates: 20 }
seeds: [0, 1, 2]
grid:
  - objective.name: [grpo, gmc]
    schedule: [{ delay: 0, interval: 1 }, { delay: 4, interval: 1 }]
  - objective.name: gmc
    schedule: { delay: 0, interval: 4 }
    learner.lr: 1.0e-2
"""
REASON = 'disk & <script>alert("x")</script> gone'


class Page(HTMLParser):
    """Text, tables, images and everything that could reach out of the file."""

    VOID = frozenset({"meta", "img", "br", "link", "hr", "input"})

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.text, self.tables, self.tags, self.targets, self.open = [], [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.targets += [(k, v) for k, v in attrs if k in ("src", "href", "srcset", "action")]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" in self.open:
            return
        self.text.append(text)
        if self.open and {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += text

    def table(self, header):
        """Rows of the tables that have the header cell, as dictionaries."""
        return [
            dict(zip(rows[0], row, strict=True))
            for rows in self.tables
            if header in rows[0]
            for row in rows[1:]
        ]


def write_all(study):
    collect(study, Path("tables"))
    table = pd.read_csv("tables/runs.csv")
    fits = fit_by(table)
    write_json(Path("fit.json"), {**fits.pop("pooled"), "by": fits, "runs": "tables/runs.csv"})
    draw_all(study, Path("tables"), Path("figures"))
    write_report(study, Path("tables"), Path("fit.json"), Path("figures"), Path("report.html"))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(study, html, data): grpo 0.5, 0.6, 0.7 by seed; gmc 0.2 more without lag.

    At lr 0.01 gmc collapsed with seeds 0 and 1, and failed with seed 2.
    """
    folder = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = load(STUDY)
        for run in study.runs:
            s = run.settings
            if s.learner.lr == 1e-2 and s.seed == 2:
                write_run(study, run, {}, "failed", reason=REASON)
            elif s.learner.lr == 1e-2:
                write_run(study, run, {0: 0.25, 5: 0.02, 10: 0.01}, "collapsed", (5, 10), "fell")
            else:
                gain = 0.2 if s.objective.name == "gmc" and s.schedule.delay == 0 else 0.0
                gain += 0.01 * s.seed if gain else 0.0
                write_run(study, run, {0: 0.25, 20: 0.5 + 0.1 * s.seed + gain})
        write_all(study)
        yield study, Path("report.html").read_text(), read(study, Path("tables"))


@pytest.fixture(scope="module")
def page(told):
    return Page(told[1])


def test_nothing_in_the_file_reaches_out(told, page):
    assert page.open == []
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    for attribute, value in page.targets:
        assert value.startswith("data:image/png;base64,") or (attribute, value[0]) == ("href", "#")
    assert not re.search(r"https?://|@import|url\(", told[1])
    assert page.tags.count("img") == 4


def test_links_inside_the_page_have_targets(told, page):
    ids = set(re.findall(r'id="([^"]+)"', told[1]))
    assert {value[1:] for key, value in page.targets if key == "href"} <= ids


def test_every_run_stands_in_the_report_as_in_the_table(told, page):
    shown = {row["run"]: row for row in page.table("run")}
    runs = pd.read_csv(Path("tables/runs.csv"))
    assert set(shown) == set(runs["run_id"])
    for run in runs.to_dict("records"):
        row = shown[run["run_id"]]
        score = "–" if pd.isna(run["final_score"]) else f"{run['final_score']:.3f}"
        assert row["final score"] == score
        assert row["updates"] == f"{run['horizon']} / 20"
        assert row["reason"] == run["reason"]


def test_final_scores_are_means_with_student_intervals(page):
    rows = {(r["staleness"], r["lr"], r["method"]): r for r in page.table("mean lag")}
    # s = 0.1, n = 3: 2.919986 * 0.1 / sqrt(3) = 0.169; gmc without lag 0.70, 0.81, 0.92.
    assert rows["D = 4, I = 1", "1e-4", "grpo"]["final score"] == "0.600 ± 0.169 (3 seeds)"
    assert rows["D = 0, I = 1", "1e-4", "gmc"]["final score"] == "0.810 ± 0.185 (3 seeds)"
    collapsed = rows["D = 0, I = 4", "0.01", "gmc"]
    assert collapsed["final score"] == "0.010, no interval (2 seeds)"
    assert (collapsed["collapsed"], collapsed["failed"]) == ("2", "1")


def test_differences_are_paired_and_only_those_with_intervals_are_claims(told):
    sentences = results.summary(told[2])
    # gmc - grpo without lag: 0.20, 0.21, 0.22, mean 0.21, 2.919986 * 0.01 / sqrt(3) = 0.017.
    assert "D = 0, I = 1, lr 1e-4: gmc − grpo is +0.210 ± 0.017 (3 seeds)." in sentences
    # With lag both have equal scores: no interval, no claim.
    assert not [s for s in sentences if s.startswith("D = 4") and "gmc − grpo" in s]
    assert "15 runs of up to 20 updates: 12 stable, 2 collapsed, 0 censored, 1 failed." in sentences
    assert "At lr 0.01, 2 of 3 runs collapsed, at update 5." in sentences


def test_a_failed_run_is_prominent_and_its_reason_escaped(told, page):
    _, html, _ = told
    assert "<script" not in html
    assert "disk &amp; &lt;script&gt;" in html
    text = "".join(page.text)
    assert text.index(REASON) < text.index("Summary\n")
    assert "1 failed: the machinery broke, not the policy" in text
    assert any("1 run failed" in s for s in results.caveats(told[2]))


def test_description_is_text(told):
    assert "Does &lt;b&gt;staleness&lt;/b&gt; hurt?" in told[1]


def test_fits_stand_beside_the_papers_values(page):
    rows = page.table("law")
    assert [r["paper"] for r in rows[:3]] == ["−1", "−1", "0"]
    assert {r["estimate"] for r in rows[1:3]} == {"not identified"}
    assert "needed: at least 3" in rows[1]["reading"]
    brackets = {r["S"]: r for r in page.table("last stable lr")[:3]}
    assert (brackets["5"]["last stable lr"], brackets["5"]["first collapsed lr"]) == ("1e-4", "–")
    assert brackets["4"]["first collapsed lr"] == "0.01"


@pytest.mark.parametrize(
    ("low", "high", "reading"),
    [
        (-1.4, -0.7, "holds the paper's value, excludes 0"),
        (-1.4, 0.2, "not decided: the interval holds both −1 and 0"),
        (-0.4, 0.2, "excludes the paper's value, holds 0"),
        (-0.8, -0.3, "excludes the paper's value"),
    ],
)
def test_an_exponent_is_read_by_its_interval(low, high, reading):
    exponent = {"estimate": (low + high) / 2, "low": low, "high": high, "level": 0.9}
    nothing = {"lr_exponent": None, "S_exponent": None, "reason": "too few", "method": "m"}
    fit = {
        "boundary": {
            "S_exponent": exponent,
            "reason": None,
            "method": "m",
            "brackets": [],
            "consistent_exponents": {"low": None, "high": -0.5},
        },
        "collapse_time": {**nothing, "survivors_only": nothing},
        "notes": [],
    }
    (group,) = fit_groups(fit)
    assert group["laws"][0]["reading"] == reading
    assert group["laws"][1]["reading"] == "too few"
    assert group["consistent"] == "−∞ to −0.50"


def test_settings_tables_and_provenance_are_there(told, page):
    text = "".join(page.text)
    assert "learner.lr: 0.01" in text
    assert "commit c0ffee" in text
    assert "with uncommitted changes" in text
    assert "torch 2.9.0" in text
    assert "node7 (2 CPUs, a processor)" in text
    assert "2023-11-14 22:13 UTC to 2023-11-14 22:14 UTC" in text
    assert "d" * 64 in text
    described = {row["column"] for row in page.table("meaning")}
    assert described == {c.name for columns in TABLES.values() for c in columns}


def test_equal_inputs_give_equal_bytes(told):
    study, html, _ = told
    write_report(study, Path("tables"), Path("fit.json"), Path("figures"), Path("again.html"))
    assert Path("again.html").read_text() == html
