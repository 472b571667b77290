"""Generated files are current, and the study files of the repository are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from driftlaw.config import reference
from driftlaw.config.cost import parameters, run_seconds
from driftlaw.config.settings import ModelSettings
from driftlaw.config.study import Run, load_study
from driftlaw.models.base import make_base
from driftlaw.models.tiny import build_model, build_tokenizer
from driftlaw.tasks.prepare import prepare

from ..commands import ROOT, driftlaw

SMALL_BASE = """\
task: { name: running_sum, level: 1, train_prompts: 60, heldout_prompts: 16 }
model: { layers: 1, hidden_size: 32, intermediate_size: 32, heads: 2, kv_heads: 1 }
base: { clean_updates: 200, noisy_updates: 200, batch: 64, lr: 1.0e-2, noise: 0.5,
        pass_rate_target: 0.05, pass_rate_low: 0, pass_rate_high: 1 }
"""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (reference.SCHEMA_FILE, reference.schema_text),
        (reference.REFERENCE_FILE, reference.reference_text),
        (reference.TABLES_FILE, reference.tables_text),
    ],
)
def test_generated_files_are_current(path: Path, text: object) -> None:
    assert callable(text)
    assert (ROOT / path).read_text() == text(), "run `make docs`"


def test_the_schema_accepts_the_studies_and_refuses_a_wrong_one() -> None:
    validator = Draft202012Validator(yaml.safe_load((ROOT / reference.SCHEMA_FILE).read_text()))
    for name in ("smoke", "ci"):
        study = yaml.safe_load((ROOT / f"config/{name}.yaml").read_text())
        assert list(validator.iter_errors(study)) == []
        study["schedule"]["interval"] = 0
        assert [list(e.path) for e in validator.iter_errors(study)] == [["schedule", "interval"]]


def test_smoke_is_the_grid_that_it_promises() -> None:
    runs = [r.settings for r in load_study(ROOT / "config/smoke.yaml").runs]
    main = [r for r in runs if r.learner.lr == 1e-4]
    cells = {(r.objective.name, r.schedule.delay, r.schedule.interval, r.seed) for r in main}
    assert len(main) == len(cells) == 3 * 3 * 2
    others = [r for r in runs if r.learner.lr != 1e-4]
    assert len(others) == 3 * 3 * 2 and {r.objective.name for r in others} == {"grpo_noclip"}


def test_ci_is_as_small_as_it_promises() -> None:
    study = load_study(ROOT / "config/ci.yaml")
    assert len(study.runs) == 4
    assert {r.settings.learner.updates for r in study.runs} == {10}
    assert study.settings.base.clean_updates + study.settings.base.noisy_updates <= 100


def test_check_prints_runs_updates_and_core_hours() -> None:
    done = driftlaw("config", "check", "config/ci.yaml", cwd=ROOT)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["runs"] == "4" and lines["updates"].startswith("40 ")
    seconds = 4 * run_seconds(load_study(ROOT / "config/ci.yaml").runs[0].settings)
    assert f"({seconds / 3600:.2f} training" in lines["core-hours"]


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_the_parameter_count_is_exact(architecture: str) -> None:
    settings = ModelSettings(
        architecture=architecture, layers=3, hidden_size=48, heads=6, kv_heads=3
    )
    model = build_model(settings, len(build_tokenizer()), seed=0)
    assert parameters(settings) == sum(p.numel() for p in model.parameters())


def test_a_number_written_as_yaml_text_is_the_same_run(tmp_path: Path) -> None:
    """YAML reads `1e-4` as text and `1.0e-4` as a number: both are the same learning rate."""
    ids = []
    for written in ("1e-4", "1.0e-4", "0.0001"):
        (tmp_path / "s.yaml").write_text(f"study: s\nlearner: {{ lr: {written} }}\n")
        ids.append(load_study(tmp_path / "s.yaml").runs[0].run_id)
    assert len(set(ids)) == 1


def test_a_block_inherits_what_it_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "study: s\nobjective: { name: gmc, eps: 0.3 }\nlearner: { lr: 0.001 }\nseeds: [4, 5]\n"
        "grid:\n  - objective.name: [gmc, grpo_noclip]\n    schedule: [{ delay: 2 }]\n"
        "  - learner.lr: 0.002\n    seeds: [7]\n"
    )
    found = [
        (r.objective.name, r.objective.eps, r.schedule.delay, r.learner.lr, r.seed)
        for r in (run.settings for run in load_study(tmp_path / "s.yaml").runs)
    ]
    assert found == [
        ("gmc", 0.3, 2, 0.001, 4),
        ("gmc", 0.3, 2, 0.001, 5),
        ("grpo_noclip", None, 2, 0.001, 4),
        ("grpo_noclip", None, 2, 0.001, 5),
        ("gmc", 0.3, 0, 0.002, 7),
    ]


def test_later_files_are_laid_over_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("study: a\nlearner: { lr: 0.001, updates: 5 }\n")
    (tmp_path / "b.yaml").write_text("learner: { updates: 7 }\n")
    run = load_study([tmp_path / "a.yaml", tmp_path / "b.yaml"]).runs[0].settings
    assert (run.learner.lr, run.learner.updates) == (0.001, 7)


def test_the_content_of_a_task_file_is_part_of_the_identity(tmp_path: Path) -> None:
    rows = "".join(f'{{"prompt": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(30))
    (tmp_path / "s.yaml").write_text(
        f"study: s\ntask: {{ name: file, path: '{tmp_path / 'p.jsonl'}', heldout_prompts: 8 }}\n"
        "evaluation: { prompts: 8 }\n"
    )
    names = []
    for text in (rows, rows.replace('"30"', '"31"')):
        (tmp_path / "p.jsonl").write_text(text)
        run = load_study(tmp_path / "s.yaml").runs[0]
        names.append((run.data_id, run.run_id))
    assert names[0][0] != names[1][0] and names[0][1] != names[1][1]


def test_a_base_policy_has_one_name_and_one_content(tmp_path: Path) -> None:
    """What a study evaluates with changes neither the base's name nor its bytes; threads change both."""

    def run(text: str) -> Run:
        path = tmp_path / "s.yaml"
        path.write_text(f"study: s\n{SMALL_BASE}{text}")
        return load_study(path).runs[0]

    plain = run("evaluation: { prompts: 8 }\n")
    other = run("evaluation: { prompts: 8, n: 7, temperature: 0.5, seed: 9 }\n")
    assert plain.base_id == other.base_id and plain.run_id != other.run_id
    assert run("evaluation: { prompts: 8 }\nlearner: { threads: 2 }\n").base_id != plain.base_id
    prepare(plain.settings.task, tmp_path / "data")
    made = [
        make_base(r.settings, tmp_path / "data", tmp_path / f"base{i}", lambda _: None)
        for i, r in enumerate((plain, other))
    ]
    assert 0 < made[0]["noisy_updates"] < 200
    assert made[0] == made[1]
