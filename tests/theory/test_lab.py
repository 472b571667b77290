"""The laboratory as a whole: sections that are complete stay, the page says what its tables say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from driftlaw.config.lab import LabSettings
from driftlaw.theory.claim import verdict_of
from driftlaw.theory.claims import claims
from driftlaw.theory.lab import SECTIONS, complete, finish, read_tables, run
from driftlaw.theory.page import page

from ..commands import ROOT, driftlaw

TINY: dict[str, Any] = {
    "cycle": {"objectives": ["grpo", "gmc"], "group_size": 2, "intervals": [3], "lrs": [0.1, 0.3]},
    "second_moment": {"group_size": 2, "updates": [0, 8], "distances": [1.0]},
}


def settings(**change: Any) -> LabSettings:
    return LabSettings.model_validate(TINY | change)


def quiet(text: str) -> None:
    pass


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.csv")}


def test_every_section_of_the_settings_has_its_experiment() -> None:
    assert set(SECTIONS) == set(LabSettings.model_fields)


def test_complete_sections_stay_and_a_changed_one_runs_again(tmp_path: Path) -> None:
    run(settings(), tmp_path, list(TINY), 1, quiet)
    before = content(tmp_path)
    assert {name.split("/")[0] for name in before} == set(TINY)
    ran: list[str] = []
    run(settings(), tmp_path, list(TINY), 1, ran.append)
    assert sorted(ran) == ["cycle: complete", "second_moment: complete"]
    changed = settings(cycle=TINY["cycle"] | {"lrs": [0.1, 0.2]})
    assert complete(changed, tmp_path, "second_moment")
    assert not complete(changed, tmp_path, "cycle")
    ran.clear()
    run(changed, tmp_path, list(TINY), 1, ran.append)
    assert "second_moment: complete" in ran and "cycle: started" in ran
    after = content(tmp_path)
    assert after["second_moment/second_moment.csv"] == before["second_moment/second_moment.csv"]
    assert after["cycle/cycle.csv"] != before["cycle/cycle.csv"]


def test_two_processes_give_the_bytes_of_one(tmp_path: Path) -> None:
    run(settings(), tmp_path / "one", list(TINY), 1, quiet)
    run(settings(), tmp_path / "two", list(TINY), 2, quiet)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_section_that_breaks_leaves_nothing_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SECTIONS, "second_moment", "experiments_cycle:no_such_function")
    with pytest.raises(AttributeError):
        run(settings(), tmp_path, list(TINY), 1, quiet)
    assert (tmp_path / "cycle/manifest.json").exists()
    assert not (tmp_path / "second_moment").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_ends_every_process_and_keeps_what_is_complete(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    long = {"async_sgd": {}, "drift": {}, "second_moment": TINY["second_moment"]}
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"study": "s", "seeds": [], "lab": long}))
    command = [sys.executable, "-m", "driftlaw", "lab", "--config", "lab.yaml", "--out", "lab"]
    process = subprocess.Popen(
        [*command, "--cores", "3"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job ignores SIGINT, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "second_moment: done" in line:
            break
    all_children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    # Besides the sections there is Python's own tracker of shared resources.
    children = [c for c in all_children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
    assert len(children) >= 2
    os.killpg(process.pid, number)
    rest = process.stderr.read()
    assert process.wait(30) == code and "Traceback" not in rest
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    held = {path.parent.name for path in (tmp_path / "lab").glob("*/manifest.json")}
    assert "second_moment" in held and not held & {"async_sgd", "drift"}


def test_a_section_that_breaks_in_its_own_process_is_one_line(tmp_path: Path) -> None:
    """A file stands where the laboratory's folder should be."""
    (tmp_path / "lab").write_text("")
    with pytest.raises(RuntimeError, match=r"^laboratory section \w+: .*/lab: ") as error:
        run(settings(), tmp_path / "lab", list(TINY), 2, quiet)
    assert "\n" not in str(error.value)


def test_the_page_holds_the_claims_of_its_sections_and_their_figures(tmp_path: Path) -> None:
    run(settings(), tmp_path, list(TINY), 1, quiet)
    finish(settings(), tmp_path, quiet)
    text = (tmp_path / "estimators.md").read_text()
    found = json.loads((tmp_path / "estimators/claims.json").read_text())
    assert [c["id"] for c in found] == ["3", "5"]
    for claim in found:
        assert f"## {claim['id']}. {claim['title']}" in text and claim["evidence"] in text
        for table in claim["tables"]:
            assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for name in json.loads((tmp_path / "estimators/captions.json").read_text()):
        assert (tmp_path / f"estimators/{name}.png").stat().st_size > 1000
        assert f"(estimators/{name}.png)" in text
    sup = pd.read_csv(tmp_path / "second_moment/sup.csv")
    largest = sup.loc[sup["objective"] == "uncapped", "sup"].max()
    assert f"without a cap {largest:.3g}" in text


def test_a_section_that_was_not_run_is_not_on_the_page_and_it_is_said(tmp_path: Path) -> None:
    run(settings(), tmp_path, ["cycle"], 1, quiet)
    said: list[str] = []
    finish(settings(), tmp_path, said.append)
    assert said[0].endswith("not run with these settings: second_moment")
    assert [c["id"] for c in json.loads((tmp_path / "estimators/claims.json").read_text())] == ["5"]


def test_a_verdict_follows_its_table(tmp_path: Path) -> None:
    """Linear and reset: supported; one of the two: depends; neither: not supported."""
    run(settings(), tmp_path, ["cycle"], 1, quiet)
    tables = read_tables(tmp_path, ["cycle"])

    def verdict(**change: float) -> str:
        changed = tables["cycle"]["exponents"].assign(**change)
        return str(claims({"cycle": tables["cycle"] | {"exponents": changed}})[0]["verdict"])

    assert verdict() == "supported"
    assert verdict(slope=2.0) == verdict(at_synchronisation=0.1) == "depends"
    assert verdict(slope=2.0, at_synchronisation=0.1) == "not supported"


def test_tables_that_are_too_small_decide_nothing(tmp_path: Path) -> None:
    assert verdict_of([]) == "undecided"
    assert [verdict_of(c) for c in ([True], [True, False], [False])] == [
        "supported",
        "depends",
        "not supported",
    ]
    cells = pd.DataFrame(
        {
            "method": ["gmc", "gmc"],
            "tau": [4, 8],
            "relative": [0.1, 0.2],
            "delay_resolved": [False, False],
            "cap_term": [float("nan")] * 2,
            "cap_resolved": [False, False],
        }
    )
    nothing = pd.DataFrame(
        {"scope": ["inside"], "estimate": [float("nan")], "term": ["delay"], "method": ["gmc"]}
        | {"variable": ["G"], "low": [float("nan")], "high": [float("nan")], "claimed": [-0.4]}
    )
    found = claims({"async_sgd": {"cells": cells, "exponents": nothing}})[0]
    assert found["verdict"] == "undecided" and "none can be fitted" in found["evidence"]

    def verdict(low: float, high: float) -> str:
        row = nothing.assign(estimate=(low + high) / 2, low=low, high=high, cells=5, unresolved=0)
        return str(
            claims({"async_sgd": {"cells": cells, "exponents": row.assign(scatter=0.1)}})[0][
                "verdict"
            ]
        )

    assert verdict(-0.5, -0.3) == "supported" and verdict(-1.2, -0.9) == "not supported"


def test_docs_are_the_page_of_the_claims_beside_them() -> None:
    folder = ROOT / "docs/estimators"
    found = json.loads((folder / "claims.json").read_text())
    captions = json.loads((folder / "captions.json").read_text())
    assert (ROOT / "docs/estimators.md").read_text() == page(found, captions)
    assert [c["id"] for c in found] == list("12345678")
    assert all((folder / f"{name}.png").exists() for name in captions)


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump({"study": "s", "seeds": [], "lab": TINY}))
    for arguments, says in (
        (("--section", "drift"), '--section: "drift": must be one of second_moment, cycle'),
        (("--config", "config/none.yaml"), "config/none.yaml"),
    ):
        given = arguments if "--config" in arguments else ("--config", str(study), *arguments)
        done = driftlaw("lab", *given, "--out", str(tmp_path / "lab"), cwd=ROOT)
        assert done.returncode == 2 and says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    study.write_text("study: s\n")
    done = driftlaw("lab", "--config", str(study), cwd=ROOT)
    assert done.returncode == 2 and "the study has no laboratory" in done.stderr
