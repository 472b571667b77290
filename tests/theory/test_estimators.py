"""An estimator's coefficients against autograd through the policy, for every objective there is."""

import numpy as np
import pytest
import torch

from driftlaw.objectives import CATALOG, Batch, get
from driftlaw.theory.estimators import UNCAPPED, Objective, estimate, objectives, takes_eps
from driftlaw.theory.targets import group_advantages

from .small import sixteen, tiny

GROUPS = np.array([[0, 5, 5, 9], [1, 2, 15, 12], [7, 7, 7, 3], [0, 1, 14, 8]])


def arrays(point, groups, x=0):
    reward = point.problem.reward_xo[x][groups]
    return point.logpi_xyl[x][groups], point.logmu_xyl[x][groups], group_advantages(reward, "std")


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("policy", ["tabular", "network"])
def test_gradient_of_one_group_through_theta(name, policy):
    point = sixteen(policy)
    objective = Objective(name, 0.2 if takes_eps(name) else None)
    logpi, logmu, advantage = arrays(point, GROUPS)
    found = estimate(objective, logpi, logmu, advantage)
    loss = get(name, length_norm="constant", l_max=1, clamp=80, **objective.parameters)
    for g, members in enumerate(GROUPS):
        # Slow and separate: the product's loss of this group alone, differentiated in theta.
        theta = point.theta_pi.clone().requires_grad_()
        logp = point.problem.policy.token_logp(theta)[0][torch.as_tensor(members)]
        mask = torch.ones_like(logp, dtype=torch.bool)
        batch = Batch(logp, torch.tensor(logmu[g]), mask, torch.tensor(advantage[g]), 4)
        (slope,) = torch.autograd.grad(loss(batch).loss, theta)
        # gspo and gepo divide by the length, 2 tokens here, whatever the length norm.
        expected = -slope.numpy() * (2 if name in ("gspo", "gepo") else 1)
        edges = point.problem.tree.edge_yl[members]
        vector = np.einsum("gl,gld->d", found.coefficient_mgl[g], point.score_xed[0][edges])
        assert vector == pytest.approx(expected, abs=1e-14)


def test_uncapped_is_the_trajectory_ratio():
    point = sixteen()
    logpi, logmu, advantage = arrays(point, GROUPS)
    found = estimate(Objective(UNCAPPED), logpi, logmu, advantage)
    ratio = np.exp(logpi.sum(2) - logmu.sum(2))
    assert found.weight_mg == pytest.approx(ratio)
    assert found.coefficient_mgl[:, :, 1] == pytest.approx(ratio * advantage / 4)
    # A cap that never binds is no cap.
    loose = estimate(Objective("gmc", 100.0), logpi, logmu, advantage)
    assert loose.coefficient_mgl == pytest.approx(found.coefficient_mgl, abs=1e-15)


@pytest.mark.parametrize("name", [n for n in CATALOG if n != "gepo"])
def test_on_policy_every_weight_is_one(name):
    point = tiny(updates=0)
    logpi, logmu, advantage = arrays(point, np.array([[0, 1, 2], [3, 3, 1]]))
    found = estimate(Objective(name), logpi, logmu, advantage)
    assert found.weight_mg == pytest.approx(np.ones((2, 3)), abs=1e-14)
    expected = np.repeat(advantage[:, :, None] / 3, 2, axis=2)
    assert found.coefficient_mgl == pytest.approx(expected, abs=1e-15)


def test_eps_is_given_where_it_has_that_scale():
    found = {objective.name: objective for objective in objectives(0.3)}
    assert set(found) == {UNCAPPED, *CATALOG}
    assert found["gmc"].parameters == {"eps": 0.3}
    assert found["dapo"].parameters == pytest.approx({"eps_low": 0.3, "eps_high": 0.42})
    for name in (UNCAPPED, "gspo", "cispo", "tis", "m2po", "grpo_noclip"):
        assert found[name].parameters == {}
    assert found["dr_grpo"].advantage == "mean"
    assert found["gmc"].advantage == "std"


def test_m2po_masks_within_a_group_not_across():
    point = sixteen()
    logpi, logmu, advantage = arrays(point, GROUPS)
    together = estimate(Objective("m2po"), logpi, logmu, advantage)
    for g in range(len(GROUPS)):
        alone = estimate(
            Objective("m2po"), logpi[g : g + 1], logmu[g : g + 1], advantage[g : g + 1]
        )
        assert np.array_equal(together.coefficient_mgl[g], alone.coefficient_mgl[0])
