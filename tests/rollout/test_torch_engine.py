"""The engine against exact distributions, and the promises of its protocol."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from driftlaw.models.logprobs import response_logits, token_logprobs
from driftlaw.rollout.protocol import NonFinitePolicy
from driftlaw.streams import uniforms

from .policies import (
    ARCHITECTURES,
    EOS,
    EVEN,
    PAD,
    UNEVEN,
    VOCAB,
    engine,
    exact_probabilities,
    policy,
    streams,
)

FIELDS = ("response", "behaviour_logp", "lengths", "truncated")


def content(samples):
    return [(getattr(samples, f).shape, getattr(samples, f).tobytes()) for f in FIELDS]


def test_the_policies_of_these_tests_depend_on_their_context():
    """By far more than the 1e-5 granted to rounding: a wrong mask, position or pad shows."""
    for architecture in ARCHITECTURES:
        model = policy(architecture)
        base = exact_probabilities(model, [5, 6, 7, 8])
        assert base.max() > 3 / VOCAB
        for other in ([4, 6, 7, 8], [6, 5, 7, 8], [5, 7, 8], [PAD, 5, 6, 7, 8]):
            assert np.abs(exact_probabilities(model, other) - base).max() > 2e-3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("prompts", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.3, 0.8), (1.0, 0.4)])
def test_recorded_log_mu_is_that_of_an_unpadded_pass_without_cache(
    architecture, prompts, temperature, top_p
):
    model = policy(architecture)
    samples = engine(model, temperature=temperature, top_p=top_p).generate(
        0, prompts, streams(prompts, 3)
    )
    worst, checked = 0.0, 0
    for row, tokens in enumerate(samples.response.tolist()):
        context = list(prompts[row // 3])
        for t in range(samples.lengths[row]):
            p = exact_probabilities(model, context, temperature, top_p)
            assert p[tokens[t]] > 0
            worst = max(worst, abs(samples.behaviour_logp[row, t] - math.log(p[tokens[t]])))
            checked += 1
            context.append(tokens[t])
    assert checked > 20
    assert worst < 1e-5


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("prompts", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_the_learner_sees_the_same_log_probabilities(architecture, prompts):
    """On-policy ratios are 1: the learner's pass agrees with log mu at the same temperature."""
    model = policy(architecture)
    samples = engine(model, temperature=0.7).generate(0, prompts, streams(prompts, 3))
    response = torch.from_numpy(samples.response.copy())
    repeated = [p for p in prompts for _ in range(3)]
    with torch.no_grad():
        logits = response_logits(model, repeated, response, PAD)
        logp, _ = token_logprobs(logits, response, 0.7)
    inside = np.arange(response.shape[1]) < samples.lengths[:, None]
    assert np.abs(logp.numpy() - samples.behaviour_logp)[inside].max() < 1e-5


@pytest.mark.parametrize("prompts", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_chunk_depends_on_nothing_that_was_generated_before(prompts):
    model = policy()
    fresh = engine(model).generate(0, prompts, streams(prompts, 2))
    used = engine(model)
    used.generate(0, UNEVEN[::-1], streams(UNEVEN, 5, first=40))
    torch.manual_seed(123)
    torch.rand(7)
    assert content(used.generate(0, prompts, streams(prompts, 2))) == content(fresh)
    assert content(used.generate(0, prompts, streams(prompts, 2))) == content(fresh)
    other = used.generate(0, prompts, streams(prompts, 2, first=9))
    assert content(other) != content(fresh)


@pytest.mark.parametrize("prompts", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_other_chunk_sizes_give_the_same_samples_to_rounding(prompts, size):
    model = policy("llama")
    whole = engine(model).generate(0, prompts, streams(prompts, 4))
    names = streams(prompts, 4)
    row = 0
    for start in range(0, len(prompts), size):
        part = engine(model).generate(0, prompts[start : start + size], names[start : start + size])
        for i in range(len(part.lengths)):
            n = part.lengths[i]
            assert whole.lengths[row] == n
            assert whole.response[row, :n].tolist() == part.response[i, :n].tolist()
            assert np.abs(whole.behaviour_logp[row, :n] - part.behaviour_logp[i, :n]).max() < 1e-5
            row += 1
    assert row == len(whole.lengths)


def test_a_sample_depends_on_its_own_stream_alone():
    model = policy()
    names = streams(EVEN, 3)
    base = engine(model).generate(0, EVEN, names)
    names[1][1] = (99, 1, 0, 0, 0)
    changed = engine(model).generate(0, EVEN, names)
    width = min(base.response.shape[1], changed.response.shape[1])
    same = (base.response[:, :width] == changed.response[:, :width]).all(1)
    assert same.tolist() == [True] * 4 + [False] + [True] * 7


@pytest.mark.parametrize("prompts", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_responses_end_at_end_of_text(prompts):
    samples = engine(policy(), max_tokens=5).generate(0, prompts, streams(prompts, 40))
    kinds = set()
    for tokens, logp, length, truncated in zip(
        samples.response.tolist(),
        samples.behaviour_logp.tolist(),
        samples.lengths.tolist(),
        samples.truncated.tolist(),
        strict=True,
    ):
        if truncated:
            assert length == 5 and EOS not in tokens
        else:
            assert tokens.index(EOS) == length - 1
        assert tokens[length:] == [PAD] * (len(tokens) - length)
        assert logp[length:] == [0.0] * (len(tokens) - length)
        assert all(x < 0 for x in logp[:length])
        kinds.add((length, truncated))
    # End-of-text in the last place is no truncation; both kinds occur at full length.
    assert {(1, False), (5, False), (5, True)} <= kinds
    assert samples.finish_reasons == ["length" if t else "stop" for t in samples.truncated]


def test_width_is_that_of_the_longest_response():
    """A policy that ends at once: one token, no waiting for the limit."""
    model = policy()
    with torch.no_grad():
        model.lm_head.weight.zero_()
    names = streams(EVEN[:1], 1)
    uniform = engine(model, max_tokens=50).generate(0, EVEN[:1], names)
    assert uniform.response.shape[1] == uniform.lengths[0]
    # Every token has probability 1/13 and the cumulative distribution is a ruler.
    assert uniform.behaviour_logp[0].tolist() == pytest.approx(
        [-math.log(VOCAB)] * int(uniform.lengths[0]), abs=1e-6
    )
    ruler = (uniforms(names[0], 50)[0] * VOCAB).astype(int).tolist()
    assert uniform.response[0].tolist() == ruler[: ruler.index(EOS) + 1]


def test_limit_of_one_token():
    samples = engine(policy(), max_tokens=1).generate(0, EVEN, streams(EVEN, 30))
    assert samples.response.shape == (120, 1)
    assert set(samples.lengths.tolist()) == {1}
    assert (samples.truncated == (samples.response[:, 0] != EOS)).all()
    assert len(set(samples.truncated.tolist())) == 2


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.0, 0.9)])
def test_frequencies_match_the_exact_distribution(temperature, top_p):
    """First token, and second token given the most frequent first one; chi-square at 1e-4."""
    model = policy()
    prompt = UNEVEN[2]
    group = 6000
    samples = engine(model, max_tokens=2, temperature=temperature, top_p=top_p).generate(
        0, [prompt, UNEVEN[0]], [[(3, 1, 0, p, j) for j in range(group)] for p in range(2)]
    )
    tokens = samples.response[:group]
    first = exact_probabilities(model, prompt, temperature, top_p)
    lead = max((k for k in range(VOCAB) if k != EOS), key=lambda k: first[k])
    second = exact_probabilities(model, [*prompt, lead], temperature, top_p)
    for seen, expected in ((tokens[:, 0], first), (tokens[tokens[:, 0] == lead, 1], second)):
        counts = np.bincount(seen, minlength=VOCAB)
        assert counts[expected == 0].sum() == 0
        wanted = expected * counts.sum()
        usual = wanted >= 5
        assert usual.sum() >= 3
        statistic = ((counts - wanted)[usual] ** 2 / wanted[usual]).sum()
        assert statistic < chi2.ppf(1 - 1e-4, usual.sum() - 1)


def test_version_must_be_the_one_that_is_held():
    held = engine(policy(), version=3)
    assert held.generate(3, EVEN, streams(EVEN, 1)).version == 3
    for wrong in (0, 2, 4):
        with pytest.raises(ValueError, match=f"holds version 3, not {wrong}"):
            held.generate(wrong, EVEN, streams(EVEN, 1))


@pytest.mark.parametrize("names", [streams(EVEN, 2)[:3], [[(1,)], [(2,), (3,)], [(4,)], [(5,)]]])
def test_every_prompt_has_the_same_number_of_streams(names):
    with pytest.raises(ValueError, match="same number of streams"):
        engine(policy()).generate(0, EVEN, names)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["lm_head.weight", "model.layers.0.mlp.up_proj.weight"])
def test_weights_that_are_not_finite(value, where):
    model = policy()
    with torch.no_grad():
        model.get_parameter(where)[4, 0] = value
    with pytest.raises(NonFinitePolicy):
        engine(model).generate(0, EVEN, streams(EVEN, 1))


def test_sampling_leaves_no_graph_and_changes_no_weight():
    model = policy()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    engine(model).generate(0, UNEVEN, streams(UNEVEN, 2))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
