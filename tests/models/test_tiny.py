"""Tiny models and their folders: what a published model promises, these must keep as well."""

import json
import string

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from driftlaw.config.settings import ModelSettings
from driftlaw.models.loading import load_model, load_tokenizer, save_model
from driftlaw.models.tiny import build_model, build_tokenizer

ARCHITECTURES = ("qwen3", "llama")
PRINTABLE = "".join(chr(c) for c in range(32, 127)) + "\n"


def build(architecture, seed=0, **shape):
    settings = ModelSettings(
        architecture=architecture,
        **({"hidden_size": 16, "intermediate_size": 32, "heads": 4, "kv_heads": 2} | shape),
    )
    return build_model(settings, len(build_tokenizer()), seed)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def saved(request, tmp_path_factory):
    model = build(request.param).eval()
    folder = tmp_path_factory.mktemp(request.param)
    save_model(model, build_tokenizer(), folder)
    return model, folder


def state(model):
    return {k: v.clone() for k, v in model.state_dict().items()}


def assert_equal_state(a, b):
    assert a.keys() == b.keys()
    assert [k for k in a if a[k].dtype != b[k].dtype or not torch.equal(a[k], b[k])] == []


def test_the_auto_classes_load_a_saved_folder(saved, monkeypatch):
    model, folder = saved
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert type(loaded) is type(model)
    assert_equal_state(loaded.state_dict(), state(model))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode("37+05=", add_special_tokens=False)
    assert ids == build_tokenizer().encode("37+05=", add_special_tokens=False)
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    with torch.no_grad():
        found = loaded.eval()(input_ids=torch.tensor([ids])).logits
        assert torch.equal(found, model(input_ids=torch.tensor([ids])).logits)


def test_round_trip_is_bit_equal_and_without_dropout(saved):
    model, folder = saved
    loaded = load_model(folder)
    assert_equal_state(loaded.state_dict(), state(model))
    assert not loaded.training
    assert loaded.dtype == torch.float32
    again = folder.parent / f"{folder.name}-again"
    save_model(loaded, load_tokenizer(folder), again)
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_weights_are_safetensors_only_and_untied(saved):
    model, folder = saved
    suffixes = {path.suffix for path in folder.iterdir()}
    assert suffixes <= {".json", ".safetensors", ".jinja"}
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = set(file.keys())
        assert {"lm_head.weight", "model.embed_tokens.weight"} <= names
        head, embedding = (file.get_tensor(n) for n in sorted(names) if "head" in n or "embed" in n)
    assert not torch.equal(head, embedding)
    assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()
    config = json.loads((folder / "config.json").read_text())
    assert config["tie_word_embeddings"] is False
    assert (config["head_dim"], config["vocab_size"]) == (32, 99)
    # 4 heads of 32 although the residual stream is 16 wide.
    assert tuple(model.model.layers[0].self_attn.q_proj.weight.shape) == (128, 16)


def test_pickled_weights_are_refused(saved, tmp_path):
    model, folder = saved
    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        load_model(tmp_path)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_are_a_function_of_the_seed(architecture):
    first = state(build(architecture, seed=3))
    torch.manual_seed(99)
    torch.rand(5)
    before = torch.random.get_rng_state()
    assert_equal_state(state(build(architecture, seed=3)), first)
    # Nobody else's random numbers are disturbed.
    assert torch.equal(torch.random.get_rng_state(), before)
    other = state(build(architecture, seed=4))
    assert all(not torch.equal(other[k], v) for k, v in first.items() if "norm" not in k)


def test_architectures_are_what_they_are_called():
    assert type(build("qwen3")).__name__ == "Qwen3ForCausalLM"
    assert type(build("llama")).__name__ == "LlamaForCausalLM"
    model = build("llama", layers=3, kv_heads=1, intermediate_size=24)
    assert len(model.model.layers) == 3
    assert tuple(model.model.layers[0].self_attn.k_proj.weight.shape) == (32, 16)
    assert tuple(model.model.layers[0].mlp.up_proj.weight.shape) == (24, 16)


@pytest.fixture(scope="module", params=["built", "loaded"])
def tokenizer(request, tmp_path_factory):
    built = build_tokenizer()
    if request.param == "built":
        return built
    folder = tmp_path_factory.mktemp("tokenizer")
    built.save_pretrained(folder)
    return load_tokenizer(folder)


def test_every_printable_character_is_one_token(tokenizer):
    assert len(tokenizer) == 3 + 95 + 1
    ids = [tokenizer.encode(c, add_special_tokens=False) for c in PRINTABLE]
    assert ids == [[i] for i in range(3, 99)]
    assert [tokenizer.decode(i) for i in ids] == list(PRINTABLE)


@pytest.mark.parametrize(
    "text",
    [
        PRINTABLE,
        string.printable[:94] * 2,
        "  two  spaces , and . space before marks ! ",
        " lead and trail ",
        "\n\n a \n",
        "don't n't 's",
        "",
    ],
)
def test_text_round_trips_character_by_character(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    # `encode` adds nothing even when asked to: there is no beginning-of-text.
    assert tokenizer.encode(text) == ids


def test_other_characters_are_unknown(tokenizer):
    assert tokenizer.encode("aé\tb", add_special_tokens=False) == [
        tokenizer.convert_tokens_to_ids(t) for t in ("a", "<unk>", "<unk>", "b")
    ]
