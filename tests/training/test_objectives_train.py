"""Every objective and every controller in the real loop: named in a study, trained, resumed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from driftlaw.files import read_table
from driftlaw.objectives.catalog import CATALOG

from .test_exactness import kill_at_update
from .worlds import finish, killed_child, output_bytes, small_run


@pytest.mark.parametrize("name", CATALOG)
def test_each_objective_trains(tmp_path: Path, name: str) -> None:
    """Updates are applied, weights change, and under delay the ratios leave 1."""
    run = small_run(objective__name=name, schedule__delay=2, learner__updates=5)
    manifest = finish(run, tmp_path / "run")
    assert manifest["status"] in ("stable", "collapsed") and manifest["updates"] == 5
    ledger = read_table(tmp_path / "run" / "ledger.parquet")
    assert ledger["applied"].to_pylist() == [True] * 5
    assert max(ledger["grad_norm"].to_pylist()) > 0
    assert max(abs(m - 1) for m in ledger["traj_ratio_mean"].to_pylist()) > 1e-6
    other = finish(small_run(learner__updates=5, learner__lr=1e-9), tmp_path / "still")
    assert (
        manifest["hashes"]["model/model.safetensors"] != other["hashes"]["model/model.safetensors"]
    )


def test_dr_grpo_takes_unscaled_advantages(tmp_path: Path) -> None:
    """R - mean by default: with rewards 0 and 1 and G = 4 a multiple of 1/4; a study may say otherwise."""
    finish(small_run(objective__name="dr_grpo", learner__updates=3), tmp_path / "own")
    given = small_run(objective__name="dr_grpo", learner__updates=3, advantage__normalise="std")
    finish(given, tmp_path / "given")
    own, std = (
        read_table(tmp_path / k / "samples.parquet")["advantage"].to_pylist()
        for k in ("own", "given")
    )
    assert any(own) and all(a * 4 == round(a * 4) for a in own)
    assert not all(a * 4 == round(a * 4) for a in std)


@pytest.mark.parametrize("name", ["ess_lr", "gac"])
def test_a_controller_acts_and_resumes_to_the_same_bytes(tmp_path: Path, name: str) -> None:
    settings = {
        "controller__name": name,
        "controller__max_cosine": 0.05,
        "schedule__delay": 3,
        "learner__updates": 12,
        "learner__lr": 0.003,
    }
    run = small_run(**settings)
    finish(run, tmp_path / "whole")
    kills = sum(killed_child(run, tmp_path / "killed", kill_at_update(n)) for n in (2, 5, 4))
    assert kills >= 2
    finish(run, tmp_path / "killed")
    assert output_bytes(tmp_path / "killed") == output_bytes(tmp_path / "whole")
    free = small_run(**{**settings, "controller__name": "none"})
    finish(free, tmp_path / "free")
    assert output_bytes(tmp_path / "free") != output_bytes(tmp_path / "whole")
    ledger = read_table(tmp_path / "whole" / "ledger.parquet").to_pydict()
    # Without an informative group the gradient is 0 and has no direction.
    zero = [norm == 0 for norm in ledger["grad_norm"]]
    missing = [c is None for c in ledger["grad_cosine"]]
    assert missing == [True, *(a or b for a, b in itertools.pairwise(zero))]
    if name == "ess_lr":
        shares = ledger["traj_ratio_ess"]
        assert min(shares) < 0.999
        for factor, lr, share in zip(ledger["lr_factor"], ledger["lr"], shares, strict=True):
            assert factor == pytest.approx(share**0.5, rel=1e-5)
            assert lr == pytest.approx(0.003 * factor)
    else:
        assert set(ledger["lr_factor"]) == {1.0}
        assert max(c for c in ledger["grad_cosine"] if c is not None) > 0.05
