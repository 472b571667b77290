"""CONTRIBUTING.md's recipe for an objective, followed as it is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

STUDY = """\
study: mine
objective: { name: uncapped }
schedule: { delay: 2 }
task: { name: running_sum, level: 1, train_prompts: 60, heldout_prompts: 12 }
model: { layers: 1, hidden_size: 32 }
base: { clean_updates: 20, noisy_updates: 0, pass_rate_low: 0, pass_rate_high: 1 }
learner: { updates: 3 }
evaluation: { prompts: 12, n: 2 }
"""

CHECK = """\
import math, torch
from driftlaw.objectives import Batch, get
logp = torch.tensor([[-1.0, -1.0], [-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
ratio = torch.tensor([[3.0, 2.0], [0.5, 1.0]], dtype=torch.float64)
mask = torch.ones(2, 2, dtype=torch.bool)
advantages = torch.tensor([1.0, -1.0], dtype=torch.float64)
result = get("uncapped", l_max=2)(Batch(logp, logp.detach() - ratio.log(), mask, advantages, 2))
# r = 6 and .5: -(6 * 1 * -2 - .5 * -3)/(2 * 2) is (12 - 1.5)/4.
assert math.isclose(float(result.loss.detach()), 10.5 / 4), result.loss
assert torch.allclose(result.weights[:, 0], torch.tensor([6.0, 0.5], dtype=torch.float64))
"""


def test_adding_an_objective_is_one_file_and_one_line(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    file, line = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert len(line.splitlines()) == 1
    objectives = tmp_path / "src/driftlaw/objectives"
    (objectives / "uncapped.py").write_text(file)
    catalog = objectives / "catalog.py"
    before, after = catalog.read_text().split("CATALOG: dict[str, Entry] = {\n")
    catalog.write_text(f"{before}CATALOG: dict[str, Entry] = {{\n{line}{after}")
    (tmp_path / "mine.yaml").write_text(STUDY)

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "uncapped       [choice] ablation" in python("-m", "driftlaw", "objectives")
    python("-c", CHECK)
    python("-m", "driftlaw", "train", "--config", "mine.yaml", "--out", "run")
    assert '"status": "stable"' in (tmp_path / "run/manifest.json").read_text()
