"""Wrong study files: one line that names file, key, value and what is allowed; exit code 2; no traceback."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from driftlaw.config.load import merge

from ..commands import ROOT, driftlaw, snakemake


@dataclass(frozen=True)
class Wrong:
    """A change to config/ci.yaml that makes it wrong, and what the line must name.

    `change` is merged over the file; text replaces the whole file. `files` are written beside it.
    """

    name: str
    change: dict[str, Any] | str
    key: str
    value: str
    allowed: str
    files: tuple[tuple[str, str], ...] = ()


NO_GRID: dict[str, Any] = {"grid": []}
WRONG = [
    Wrong(
        "unknown section of the laboratory",
        {"lab": {"cycles": {}}},
        "lab.cycles",
        "{}",
        "did you mean cycle?",
    ),
    Wrong(
        "unknown key of the laboratory",
        {"lab": {"cycle": {"interval": [3]}}},
        "lab.cycle.interval",
        "[3]",
        "did you mean intervals?",
    ),
    Wrong(
        "objective of the laboratory",
        {"lab": {"cycle": {"objectives": ["gcm"]}}},
        "lab.cycle.objectives.0",
        '"gcm"',
        "must be one of uncapped, grpo",
    ),
    Wrong(
        "problem too large for the laboratory",
        {"lab": {"drift": {"problems": [{"vocabulary": 10, "length": 5}]}}},
        "lab.drift.problems.0",
        "",
        "vocabulary^length = 100000: must be at most 20000",
    ),
    Wrong("nothing to do", {"seeds": [], "lab": None}, "seeds", "[]", "must have at least 1 seed"),
    Wrong(
        "parameter of another objective",
        {"objective": {"name": "gmc", "cap": 3}, "grid": []},
        "objective.cap",
        "3",
        "not a parameter of gmc",
    ),
    Wrong(
        "clip radius above 1",
        {"objective": {"name": "gspo", "eps": 1.5}, "grid": []},
        "objective.eps",
        "1.5",
        "must be a number from 0 to 1",
    ),
    Wrong(
        "switch that is a number",
        {"objective": {"name": "gmc", "through_gradient": 1}, "grid": []},
        "objective.through_gradient",
        "1",
        "must be true or false",
    ),
    Wrong(
        "unknown controller",
        {"controller": {"name": "ess"}},
        "controller.name",
        '"ess"',
        "must be one of",
    ),
    Wrong(
        "cosine of 1",
        {"controller": {"name": "gac", "max_cosine": 1}},
        "controller.max_cosine",
        "1",
        "must be less than 1",
    ),
    Wrong(
        "unknown key",
        {"learner": {"learning_rate": 1}},
        "learner.learning_rate",
        "1",
        "allowed: adam_eps",
    ),
    Wrong("unknown section", {"optimiser": {}}, "optimiser", "{}", "allowed: advantage"),
    Wrong(
        "misspelt key",
        {"schedule": {"intervall": 2}},
        "schedule.intervall",
        "2",
        "did you mean interval?",
    ),
    Wrong(
        "negative lr", {"learner": {"lr": -1e-4}}, "learner.lr", "-0.0001", "must be greater than 0"
    ),
    Wrong("lr is text", {"learner": {"lr": "fast"}}, "learner.lr", '"fast"', "must be a number"),
    Wrong("lr is true", {"learner": {"lr": True}}, "learner.lr", "true", "must be a number"),
    Wrong(
        "lr is infinite",
        {"learner": {"lr": float("inf")}},
        "learner.lr",
        "Infinity",
        "must be a finite number",
    ),
    Wrong(
        "group of one",
        {"rollout": {"group_size": 1}},
        "rollout.group_size",
        "1",
        "must be at least 2",
    ),
    Wrong(
        "group of zero",
        {"rollout": {"group_size": 0}},
        "rollout.group_size",
        "0",
        "must be at least 1",
    ),
    Wrong(
        "interval 0", {"schedule": {"interval": 0}}, "schedule.interval", "0", "must be at least 1"
    ),
    Wrong(
        "negative delay", {"schedule": {"delay": -1}}, "schedule.delay", "-1", "must be at least 0"
    ),
    Wrong(
        "delay not whole",
        {"schedule": {"delay": 1.5}},
        "schedule.delay",
        "1.5",
        "must be a whole number",
    ),
    Wrong(
        "k above n",
        {"evaluation": {"k": 5}},
        "evaluation.k",
        "5",
        "must be at most evaluation.n = 2",
    ),
    Wrong(
        "missing model folder",
        {"model": {"path": "no/where"}},
        "model.path",
        '"no/where"',
        "no such folder",
    ),
    Wrong(
        "folder without a model",
        {"model": {"path": "."}},
        "model.path",
        '"."',
        "holds no config.json",
    ),
    Wrong("broken YAML", "study: [smoke", "line 1", "", "broken YAML"),
    Wrong("tab in YAML", "study: a\nlearner:\n\tlr: 1\n", "line 3", "", "broken YAML"),
    Wrong("key twice", "study: a\nseeds: [0]\nseeds: [1]\n", "line 3", "", "'seeds' occurs twice"),
    Wrong("empty file", "", "", "", "is empty"),
    Wrong("a list", "- study\n", "", "", "must be a mapping"),
    Wrong("not UTF-8", "caf\udce9", "", "", "not UTF-8"),
    Wrong("no study name", "seeds: [0]\n", "study", "", "is missing"),
    Wrong("study name", {"study": "My study"}, "study", '"My study"', "must match"),
    Wrong(
        "empty task file",
        {"task": {"name": "file", "path": "p.jsonl", "heldout_prompts": 16}} | NO_GRID,
        "task.path",
        '"p.jsonl"',
        "holds no rows",
        (("p.jsonl", ""),),
    ),
    Wrong(
        "task file without answers",
        {"task": {"name": "file", "path": "p.jsonl", "heldout_prompts": 16}} | NO_GRID,
        "task.path",
        '"p.jsonl"',
        "row 1: `answer` must be text",
        (("p.jsonl", '{"prompt": "1+1="}\n'),),
    ),
    Wrong(
        "task file too small",
        {"task": {"name": "file", "path": "p.jsonl", "heldout_prompts": 16}} | NO_GRID,
        "task.heldout_prompts",
        "16",
        "must be less than the 1 distinct prompts",
        (("p.jsonl", '{"prompt": "1+1=", "answer": "2"}\n'),),
    ),
    Wrong(
        "answers that are no numbers",
        {"task": {"name": "file", "path": "p.jsonl", "heldout_prompts": 16}} | NO_GRID,
        "task.path",
        '"p.jsonl"',
        "holds no number",
        (("p.jsonl", '{"prompt": "a", "answer": "b"}\n{"prompt": "c", "answer": "4"}\n'),),
    ),
    Wrong("unknown task", {"task": {"name": "chess"}}, "task", "", "must be one of 'running_sum'"),
    Wrong(
        "unknown data set",
        {"task": {"name": "reasoning_gym", "dataset": "chain_sums"}} | NO_GRID,
        "task.dataset",
        '"chain_sums"',
        "chain_sum",
    ),
    Wrong(
        "options that the data set refuses",
        {"task": {"name": "reasoning_gym", "dataset": "chain_sum", "options": {"min_term": 2}}}
        | NO_GRID,
        "task.options",
        '{"min_term": 2}',
        "chain_sum says:",
    ),
    Wrong(
        "model too short",
        {"model": {"max_position": 16}, "rollout": {"max_tokens": 14}},
        "model.max_position",
        "16",
        "must be at least 18",
    ),
    Wrong(
        "unknown objective",
        {"objective": {"name": "ppo"}},
        "objective.name",
        '"ppo"',
        "must be one of grpo",
    ),
    Wrong(
        "parameter of another objective",
        {"objective": {"name": "grpo_noclip", "eps": 0.2}} | NO_GRID,
        "objective.eps",
        "0.2",
        "not a parameter of grpo_noclip",
    ),
    Wrong(
        "top-p truncates", {"rollout": {"top_p": 0.9}}, "rollout.top_p", "0.9", "must be 1 with gmc"
    ),
    Wrong(
        "too many prompts",
        {"rollout": {"prompts": 81}},
        "rollout.prompts",
        "81",
        "task.train_prompts = 80",
    ),
    Wrong(
        "prompt space",
        {"task": {"train_prompts": 99}},
        "task.train_prompts",
        "99",
        "must be at most 100",
    ),
    Wrong(
        "answers cannot fit",
        {"rollout": {"max_tokens": 2}},
        "rollout.max_tokens",
        "2",
        "must be at least 3",
    ),
    Wrong(
        "evaluation prompts",
        {"evaluation": {"prompts": 17}},
        "evaluation.prompts",
        "17",
        "heldout_prompts = 16",
    ),
    Wrong(
        "kv heads", {"model": {"kv_heads": 3}}, "model.kv_heads", "3", "must divide model.heads = 4"
    ),
    Wrong("head_dim", {"model": {"head_dim": 16}}, "model.head_dim", "16", "must be one of 32"),
    Wrong(
        "no base",
        {"base": {"clean_updates": 0, "pass_rate_low": 0.1}},
        "base.clean_updates",
        "0",
        "must be at least 1",
    ),
    Wrong(
        "pass rates",
        {"base": {"pass_rate_low": 0.6, "pass_rate_high": 0.5}},
        "base.pass_rate_low",
        "0.6",
        "at most",
    ),
    Wrong(
        "warm-up",
        {"learner": {"warmup": 11}},
        "learner.warmup",
        "11",
        "must be at most learner.updates = 10",
    ),
    Wrong("seed is text", {"seeds": ["a"]}, "seeds.0", '"a"', "must be a whole number"),
    Wrong(
        "grid: unknown key",
        {"grid": [{"learner.rate": 1}]},
        "grid[0].learner.rate",
        "1",
        "unknown key",
    ),
    Wrong("grid: unknown section", {"grid": [{"lr": 1}]}, "grid[0].lr", "1", "unknown key"),
    Wrong(
        "grid: bad value",
        {"grid": [{"schedule.delay": [0, -2]}]},
        "grid[0].schedule.delay",
        "-2",
        "at least 0",
    ),
    Wrong(
        "grid: no values",
        {"grid": [{"schedule.delay": []}]},
        "grid[0].schedule.delay",
        "[]",
        "at least 1 value",
    ),
    Wrong(
        "grid: a mapping",
        {"grid": {"schedule.delay": [1]}},
        "grid",
        '{"schedule.delay": [1]}',
        "must be a list",
    ),
    Wrong("section is a number", {"learner": 3}, "learner", "3", "must be a mapping"),
    Wrong("section is null", {"learner": None}, "learner", "null", "must be a mapping"),
]


def write(wrong: Wrong, folder: Path) -> Path:
    path = folder / "wrong.yaml"
    if isinstance(wrong.change, str):
        path.write_bytes(wrong.change.encode(errors="surrogateescape"))
    else:
        ci = yaml.safe_load((ROOT / "config/ci.yaml").read_text())
        data = wrong.change if wrong.change.get("grid") == {} else merge(ci, wrong.change)
        if "task" in wrong.change and "name" in wrong.change["task"]:
            data["task"] = wrong.change["task"]
        path.write_text(yaml.safe_dump(data))
    for name, text in wrong.files:
        (folder / name).write_text(text)
    return path


def check_line(stderr: str, wrong: Wrong) -> None:
    lines = [line for line in stderr.splitlines() if line.strip()]
    assert len(lines) == 1, stderr
    line = lines[0]
    assert line.startswith("driftlaw: wrong.yaml: ")
    assert "Traceback" not in line
    for part in (f"wrong.yaml: {wrong.key}", wrong.value, wrong.allowed):
        assert part in line, line


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_config_check_says_it_in_one_line(tmp_path: Path, wrong: Wrong) -> None:
    write(wrong, tmp_path)
    done = driftlaw("config", "check", "wrong.yaml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    check_line(done.stderr, wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_snakemake_says_the_same_line(tmp_path: Path, wrong: Wrong) -> None:
    write(wrong, tmp_path)
    done = snakemake("-n", "--configfile", "wrong.yaml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    check_line(done.stderr, wrong)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("wrong", WRONG[::7], ids=lambda w: w.name)
@pytest.mark.parametrize("verb", ["train", "data", "base", "status"])
def test_every_verb_says_it_before_anything_runs(tmp_path: Path, wrong: Wrong, verb: str) -> None:
    write(wrong, tmp_path)
    words = ["wrong.yaml"] if verb == "status" else ["--config", "wrong.yaml", "--out", "out"]
    done = driftlaw(verb, *words, cwd=tmp_path)
    assert done.returncode == 2
    check_line(done.stderr, wrong)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    for done in (
        driftlaw("config", "check", "none.yaml", cwd=tmp_path),
        snakemake("-n", "--configfile", "none.yaml", cwd=tmp_path),
    ):
        assert (done.returncode, done.stderr) == (2, "driftlaw: none.yaml: no such file\n")


@pytest.mark.parametrize(
    "words",
    [
        ["train"],
        ["train", "--config", "ci.yaml", "--out", "out"],
        ["train", "--config", "ci.yaml", "--out", "out", "--run", "nobody"],
        ["train", "--config", "ci.yaml", "--out", "out", "--stop-at", "0"],
        ["data", "--config", "ci.yaml", "--out", "out", "--data", "nobody"],
        ["no-such-verb"],
        ["fit", "none.csv", "--out", "out"],
        ["status", "nothing"],
    ],
    ids=" ".join,
)
def test_wrong_command_lines_are_one_line(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "ci.yaml").write_text((ROOT / "config/ci.yaml").read_text())
    done = driftlaw(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("driftlaw: ")
