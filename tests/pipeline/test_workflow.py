"""The DAG on its smallest study, through the real Snakemake."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import markupsafe
import pandas as pd
import pytest
import yaml

from driftlaw.config.load import merge
from driftlaw.config.study import load_study

from ..commands import ROOT, driftlaw, environment, snakemake

pytestmark = pytest.mark.pipeline
CI: dict[str, Any] = yaml.safe_load((ROOT / "config/ci.yaml").read_text())
PROFILE = ("--profile", ROOT / "profiles/smoke", "--cores", "2")


def write_study(folder: Path, **change: Any) -> Path:
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(merge(CI, change)))
    return path


def planned(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Jobs a rule that a dry run planned."""
    assert done.returncode == 0, done.stderr
    table = re.search(r"^job +count\n-+ +-+\n(.*?)^total", done.stdout + done.stderr, re.M | re.S)
    if table is None:
        assert "Nothing to be done" in done.stdout + done.stderr
        return {}
    rows = (line.split() for line in table[1].strip().splitlines())
    return {name: int(count) for name, count in rows}


def manifests(folder: Path, study: str = "ci") -> dict[str, dict[str, Any]]:
    found = sorted((folder / "results" / study / "runs").glob("*/manifest.json"))
    return {p.parent.name: json.loads(p.read_text()) for p in found}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory in which the CI study has run once."""
    folder = tmp_path_factory.mktemp("ci")
    done = snakemake(*PROFILE, "--configfile", write_study(folder), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder


def test_one_call_ends_with_a_report_of_real_runs(finished: Path) -> None:
    study = load_study(finished / "study.yaml")
    runs = manifests(finished)
    assert set(runs) == {r.run_id for r in study.runs} and len(runs) == 4
    assert {m["status"] for m in runs.values()} <= {"stable", "collapsed"}
    assert len({m["hashes"]["ledger.parquet"] for m in runs.values()}) == 4
    table = pd.read_csv(finished / "results/ci/tables/runs.csv")
    for row in table.to_dict("records"):
        manifest = runs[row["run_id"]]
        assert row["status"] == manifest["status"]
        assert row["final_score"] == pytest.approx(manifest["final_score"])
        assert row["S"] == row["delay"] + row["interval"]
    report = (finished / "results/ci/report.html").read_text()
    assert all(run_id in report for run_id in runs)
    assert not re.search(r"(src|href)=[\"']?https?:", report)
    json.loads((finished / "results/ci/laws/fit.json").read_text())
    claims = json.loads((finished / "results/ci/lab/estimators/claims.json").read_text())
    assert [c["id"] for c in claims] == ["3", "5"]
    assert "Estimator laboratory" in report
    assert all(str(markupsafe.escape(c["title"])) in report for c in claims)


def test_a_laboratory_without_training_is_a_study_too(tmp_path: Path) -> None:
    lab = {"second_moment": {"group_size": 2, "updates": [0, 8], "distances": [1.0]}}
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"study": "only", "seeds": [], "lab": lab}))
    done = snakemake(*PROFILE, "--configfile", "lab.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "## 3." in (tmp_path / "results/only/lab/estimators.md").read_text()
    assert not (tmp_path / "results/only/runs").exists()
    assert planned(snakemake("-n", "--configfile", "lab.yaml", cwd=tmp_path)) == {}


def test_after_success_nothing_is_planned(finished: Path) -> None:
    assert planned(snakemake("-n", "--configfile", "study.yaml", cwd=finished)) == {}


def test_a_changed_setting_plans_what_depends_on_it(finished: Path) -> None:
    after = {"collect": 1, "fit": 1, "figures": 1, "report": 1, "all": 1}
    cases: list[tuple[dict[str, Any], dict[str, int]]] = [
        # One block's learning rate: its two runs.
        (
            {"grid": [*CI["grid"], {"objective.name": "gmc", "learner.lr": 2e-4}]},
            {"train": 1, **after},
        ),
        ({"learner": {"lr": 3e-4}}, {"train": 4, **after}),
        ({"base": {"noise": 0.1}}, {"base": 1, "train": 4, **after}),
        ({"task": {"seed": 1}}, {"data": 1, "base": 1, "train": 4, **after}),
        ({"description": "other words"}, {"figures": 1, "report": 1, "all": 1}),
        ({"learner": {"checkpoint_every": 5}}, {"figures": 1, "report": 1, "all": 1}),
        # One section of the laboratory: it alone, and what is made of it.
        (
            {"lab": {"cycle": {"lrs": [0.1, 0.2]}}},
            {"lab_section": 1, "lab_page": 1, "figures": 1, "report": 1, "all": 1},
        ),
    ]
    for change, expected in cases:
        other = finished / "other.yaml"
        other.write_text(yaml.safe_dump(merge(CI, change)))
        assert planned(snakemake("-n", "--configfile", other, cwd=finished)) == expected, change


def test_no_key_of_smoke_survives_under_another_file(finished: Path) -> None:
    """smoke.yaml has `seeds: [0, 1]`; a file without the key must not inherit it."""
    bare = finished / "bare.yaml"
    bare.write_text("study: bare\n")
    assert planned(snakemake("-n", "--configfile", bare, cwd=finished))["train"] == 1
    assert planned(snakemake("-n", cwd=finished))["train"] == len(
        load_study(ROOT / "config/smoke.yaml").runs
    )


def test_snakemakes_own_report_works(finished: Path) -> None:
    done = snakemake(
        "--configfile", "study.yaml", "--report", "snakemake-report.html", cwd=finished
    )
    assert done.returncode == 0, done.stderr
    text = (finished / "snakemake-report.html").read_text()
    for words in ("Staleness", "Training", "Estimators", "Share of runs that collapsed"):
        assert words in text


def test_status_of_a_finished_study(finished: Path) -> None:
    done = driftlaw("status", "study.yaml", cwd=finished)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for run_id, manifest in manifests(finished).items():
        row = next(line.split() for line in lines if line.startswith(run_id))
        assert row[1] == manifest["status"] and row[2] == f"{manifest['updates']}/10"
    assert lines[-1].startswith("ci: 4 runs: ")


def test_a_study_killed_and_called_again_completes_with_the_same_bytes(
    finished: Path, tmp_path: Path
) -> None:
    """SIGKILL to Snakemake and everything it started, at several moments."""
    write_study(tmp_path)
    command = [
        "snakemake",
        "-s",
        str(ROOT / "Snakefile"),
        *map(str, PROFILE),
        "--configfile",
        "study.yaml",
    ]
    for moment in (
        "data/*/manifest.json",
        "models/*/manifest.json",
        "results/ci/runs/*/manifest.json",
    ):
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        limit = time.monotonic() + 120
        while not list(tmp_path.glob(moment)) and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = snakemake(*PROFILE, "--configfile", "study.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    hashes = {name: m["hashes"] for name, m in manifests(tmp_path).items()}
    assert hashes == {name: m["hashes"] for name, m in manifests(finished).items()}
    assert planned(snakemake("-n", "--configfile", "study.yaml", cwd=tmp_path)) == {}


def test_a_failed_run_does_not_stop_the_others_and_the_report_says_so(
    finished: Path, tmp_path: Path
) -> None:
    """One run's folder was begun by something else: its machinery fails, the study goes on."""
    for shared in ("data", "models"):
        (tmp_path / shared).symlink_to(finished / shared)
    write_study(tmp_path)
    broken, *healthy = [r.run_id for r in load_study(tmp_path / "study.yaml").runs]
    folder = tmp_path / "results/ci/runs" / broken
    (folder / "checkpoints/00000004").mkdir(parents=True)
    (folder / "checkpoints/00000004/state.json").write_text("not a checkpoint")
    done = snakemake(*PROFILE, "--configfile", "study.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = manifests(tmp_path)
    assert found[broken]["status"] == "failed" and found[broken]["reason"]
    assert all(found[name]["hashes"] == manifests(finished)[name]["hashes"] for name in healthy)
    assert "failed" in (tmp_path / "results/ci/report.html").read_text()
    status = driftlaw("status", "study.yaml", cwd=tmp_path)
    assert "1 failed" in status.stdout.splitlines()[-1]
    # Once the cause is gone, `retry` forgets the failure and the workflow plans that run alone.
    for part in sorted((folder / "checkpoints").rglob("*"), reverse=True):
        part.rmdir() if part.is_dir() else part.unlink()
    assert driftlaw("retry", "study.yaml", cwd=tmp_path).stdout.split() == [broken]
    assert planned(snakemake("-n", "--configfile", "study.yaml", cwd=tmp_path))["train"] == 1


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A small file system of its own at `folder`; skips where that needs a right we lack."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def train_words(finished: Path, study: Path, out: Path) -> tuple[str, list[object]]:
    """(run, command line) that trains the first run of a study with the finished study's inputs."""
    run_id = load_study(study).runs[0].run_id
    data, base = (next((finished / name).iterdir()) for name in ("data", "models"))
    words = [
        "train",
        "-c",
        study,
        "--run",
        run_id,
        "-o",
        out,
        "--data-dir",
        data,
        "--base-dir",
        base,
    ]
    return run_id, words


def test_a_read_only_results_folder_is_one_line(finished: Path, tmp_path: Path) -> None:
    study = write_study(tmp_path)
    _, words = train_words(finished, study, tmp_path / "results/run")
    with mounted(tmp_path / "results", "ro,size=1m"):
        for done in (
            snakemake("-c1", "--configfile", "study.yaml", cwd=tmp_path),
            driftlaw(*words, cwd=tmp_path),
        ):
            assert done.returncode == 1
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
            assert "results" in done.stderr
            assert "read-only" in done.stderr or "cannot be written" in done.stderr


def test_a_full_disk_is_one_line_and_the_next_call_goes_on(finished: Path, tmp_path: Path) -> None:
    study = write_study(tmp_path)
    out = tmp_path / "out"
    run_id, words = train_words(finished, study, out / "run")
    with mounted(out, "size=300k"):
        done = driftlaw(*words, cwd=tmp_path)
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("driftlaw: ") and "space" in last and "Traceback" not in done.stderr
        assert not (out / "run/manifest.json").exists()
        subprocess.run(["mount", "-o", "remount,size=50m", str(out)], check=True)
        assert driftlaw(*words, cwd=tmp_path).returncode == 0
        manifest = json.loads((out / "run/manifest.json").read_text())
        assert manifest["hashes"] == manifests(finished)[run_id]["hashes"]


def test_a_thousand_runs_are_a_thousand_train_jobs(tmp_path: Path) -> None:
    write_study(tmp_path, grid=[{"seeds": list(range(500)), "objective.name": ["grpo", "gmc"]}])
    assert (
        planned(snakemake("-n", "-q", "rules", "--configfile", "study.yaml", cwd=tmp_path))["train"]
        == 1000
    )


def test_the_rule_graph_in_the_docs_is_current(tmp_path: Path) -> None:
    write_study(tmp_path)
    done = snakemake(
        "--configfile", "study.yaml", "--rulegraph", "mermaid-js", "--", "all", cwd=tmp_path
    )
    drawn = re.search(r"```mermaid\n(.*?)```", (ROOT / "docs/workflow.md").read_text(), re.S)
    assert drawn is not None
    assert sorted(drawn[1].split("\n")) == sorted([*done.stdout.strip().split("\n"), ""])


def test_no_profile_is_loaded_by_itself() -> None:
    assert not (ROOT / "profiles/default").exists()
    assert not (ROOT / "workflow/profiles/default").exists()
    assert (ROOT / "slurm/config.yaml").samefile(ROOT / "profiles/slurm/config.yaml")


def test_the_slurm_profile_plans_from_the_root(tmp_path: Path) -> None:
    words = ("-n", "--profile", "slurm", "--configfile", "config/ci.yaml", "-d", str(tmp_path))
    done = subprocess.run(
        ["snakemake", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned(done)["train"] == 4
