"""Log-probabilities of responses: padding must not matter, and formulas by hand."""

import math

import numpy as np
import pytest
import torch

from driftlaw.config.settings import ModelSettings
from driftlaw.models.logprobs import left_pad, positions, response_logits, token_logprobs
from driftlaw.models.tiny import build_model

PROMPTS = [[5, 6, 7, 8, 2], [9], [3, 11, 3], [12, 4]]
RESPONSE = torch.tensor([[3, 4, 5, 1], [7, 1, 0, 0], [2, 2, 1, 0], [1, 0, 0, 0]])
LENGTHS = [4, 2, 3, 1]


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def model(request):
    settings = ModelSettings(
        architecture=request.param, hidden_size=16, intermediate_size=32, heads=2, kv_heads=1
    )
    made = build_model(settings, 13, 0).eval()
    with torch.no_grad():
        for layer in made.model.layers:
            for weight in ("q_proj", "k_proj", "v_proj", "o_proj"):
                getattr(layer.self_attn, weight).weight *= 8
        made.lm_head.weight *= 20
    return made


@torch.no_grad()
def unpadded_logits(model, prompt, response):
    """The logits that predict each response token, from one sequence without any padding."""
    logits = model(input_ids=torch.tensor([prompt + response]), use_cache=False).logits[0]
    return logits[len(prompt) - 1 : -1]


def test_left_padding_equals_no_padding_row_by_row(model):
    with torch.no_grad():
        found = response_logits(model, PROMPTS, RESPONSE, pad_id=0)
    assert found.shape == (4, 4, 13)
    for i, (prompt, n) in enumerate(zip(PROMPTS, LENGTHS, strict=True)):
        alone = unpadded_logits(model, prompt, RESPONSE[i, :n].tolist())
        torch.testing.assert_close(found[i, :n], alone, rtol=0, atol=1e-5)
        # The comparison can fail: with one pad token seen, the logits are others.
        seen = unpadded_logits(model, [0, *prompt], RESPONSE[i, :n].tolist())
        assert float((seen - alone).abs().max()) > 1e-3


def test_prompts_of_one_length(model):
    prompts = [p[:1] for p in PROMPTS]
    with torch.no_grad():
        found = response_logits(model, prompts, RESPONSE, pad_id=0)
    for i, n in enumerate(LENGTHS):
        alone = unpadded_logits(model, prompts[i], RESPONSE[i, :n].tolist())
        torch.testing.assert_close(found[i, :n], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("prompts", [PROMPTS, [p[:1] for p in PROMPTS]], ids=["uneven", "even"])
def test_what_stands_under_the_padding_of_a_response_changes_nothing(model, prompts):
    mask = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)
    other = torch.where(mask, RESPONSE, 9)
    with torch.no_grad():
        a = response_logits(model, prompts, RESPONSE, pad_id=0)[mask]
        b = response_logits(model, prompts, other, pad_id=0)[mask]
    torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_one_response_token(model):
    with torch.no_grad():
        found = response_logits(model, PROMPTS, RESPONSE[:, :1], pad_id=0)
    for i, prompt in enumerate(PROMPTS):
        alone = unpadded_logits(model, prompt, RESPONSE[i, :1].tolist())
        torch.testing.assert_close(found[i], alone, rtol=0, atol=1e-5)


def test_gradient_of_a_padded_batch_is_that_of_its_rows(model):
    def loss(logits, response):
        return -token_logprobs(logits, response, 0.8)[0].sum()

    mask = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)
    model.zero_grad()
    logp, _ = token_logprobs(response_logits(model, PROMPTS, RESPONSE, 0), RESPONSE, 0.8)
    torch.where(mask, -logp, 0.0).sum().backward()
    together = {k: p.grad.clone() for k, p in model.named_parameters()}
    model.zero_grad()
    for i, n in enumerate(LENGTHS):
        response = RESPONSE[i : i + 1, :n]
        ids = torch.tensor([PROMPTS[i] + response[0].tolist()])
        loss(model(input_ids=ids).logits[:, len(PROMPTS[i]) - 1 : -1], response).backward()
    for name, parameter in model.named_parameters():
        scale = float(parameter.grad.abs().max()) + 1e-6
        assert float((parameter.grad - together[name]).abs().max()) < 1e-4 * scale, name
    model.zero_grad()


def test_left_pad_by_hand():
    ids, mask = left_pad([[5], [6, 7, 8]], 9)
    assert ids.tolist() == [[9, 9, 5], [6, 7, 8]]
    assert mask.tolist() == [[0, 0, 1], [1, 1, 1]]
    assert positions(mask)[0, 2] == 0
    assert positions(mask)[1].tolist() == [0, 1, 2]
    ids, mask = left_pad([[5, 9], [9, 7]], 9)  # a real token may be the pad token
    assert ids.tolist() == [[5, 9], [9, 7]] and mask is None


def test_token_logprobs_by_hand():
    # Logits log(1, 2, 5) at temperature 1: p = 1/8, 2/8, 5/8; at 1/2: 1/30, 4/30, 25/30.
    logits = torch.tensor([[[1.0, 2.0, 5.0]]]).log()
    for temperature, p in ((1.0, [1 / 8, 2 / 8, 5 / 8]), (0.5, [1 / 30, 4 / 30, 25 / 30])):
        for token in range(3):
            logp, entropy = token_logprobs(logits, torch.tensor([[token]]), temperature)
            assert float(logp) == pytest.approx(math.log(p[token]), abs=1e-6)
            assert float(entropy) == pytest.approx(-np.dot(p, np.log(p)), abs=1e-6)


def test_entropy_carries_no_gradient():
    logits = torch.zeros(1, 1, 4, requires_grad=True)
    logp, entropy = token_logprobs(logits, torch.tensor([[2]]), 1.0)
    assert logp.requires_grad and not entropy.requires_grad
    # d log p_2 / d logit_k = 1{k = 2} - 1/4.
    logp.sum().backward()
    assert logits.grad[0, 0].tolist() == pytest.approx([-0.25, -0.25, 0.75, -0.25])
