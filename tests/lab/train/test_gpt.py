"""The small GPT: the same function as transformers' Llama, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headscope.errors import InputError, ModelError, ShapeError
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.llama_folder import _from_llama, _to_llama, gpt_config, llama_config, load_folder, save_folder
from headscope.lab.train.tokenizer import train_tokenizer

SMALL = GPTConfig(vocabulary=300, d_model=48, n_layers=2, n_heads=6, n_kv_heads=3, d_mlp=80, context=64)


def loud(config: GPTConfig = SMALL) -> GPT:
    """Weights large enough for attention to matter."""
    model = GPT(config, seed=1).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6.0 if weight.ndim == 2 else 1.0)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gpt")
    tokenizer = train_tokenizer(["the cat sat on the mat and the dog sat on the cat"], 300)
    save_folder(loud(), tokenizer, made, torch.float32)
    return made


def test_transformers_opens_the_folder_and_gives_the_same_logits(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.randint(0, 300, (2, 50))
    with torch.no_grad():
        torch.testing.assert_close(loud()(tokens), theirs(tokens).logits, atol=1e-4, rtol=1e-4)


def test_transformers_tokenizer_begins_with_the_start_token(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("the cat sat, 1984 ünïcode\n")["input_ids"]
    assert ids[0] == tokenizer.bos_token_id == 0
    assert tokenizer.decode(ids[1:]) == "the cat sat, 1984 ünïcode\n"


def test_a_saved_folder_loads_as_the_same_model(folder: Path) -> None:
    again = load_folder(folder)
    assert again.config == SMALL
    for (name, ours), (_, theirs) in zip(loud().named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(ours, theirs), name


def test_names_convert_there_and_back() -> None:
    for name, _ in GPT(SMALL).named_parameters():
        assert _to_llama(name).startswith("model.")
        assert _from_llama(_to_llama(name)) == name


def test_a_model_that_is_not_plain_llama_is_refused() -> None:
    config = llama_config(SMALL, torch.float32)
    with pytest.raises(ModelError, match="this config is not a Llama with tied embeddings"):
        gpt_config(config | {"tie_word_embeddings": False})
    with pytest.raises(ModelError, match="6 heads × 16 is not hidden_size=48"):
        gpt_config(config | {"head_dim": 16})


def test_generating_with_the_cache_is_generating_without_it() -> None:
    model, prompt = loud(), torch.tensor([0, 5, 7])
    cached = list(model.generate(prompt, 12, temperature=0.0))
    tokens = prompt
    for _ in range(12):
        tokens = torch.cat((tokens, model(tokens[None])[0, -1].argmax().view(1)))
    assert cached == tokens[3:].tolist()


def test_equal_seeds_sample_equal_text() -> None:
    model, prompt = loud(), torch.tensor([0])
    assert list(model.generate(prompt, 8, seed=4)) == list(model.generate(prompt, 8, seed=4))
    with pytest.raises(InputError, match="the prompt is empty; give at least the start token"):
        list(model.generate(torch.zeros(0, dtype=torch.long), 1))


def test_loss_is_the_cross_entropy_of_each_next_token() -> None:
    model, rows = loud(), torch.randint(0, 300, (2, 9))
    chances = torch.log_softmax(model(rows[:, :-1]), dim=-1)
    expected = -chances.gather(2, rows[:, 1:, None])[..., 0]
    torch.testing.assert_close(model.loss(rows), expected)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"d_model": 4, "n_heads": 8}, "n_heads=8 with d_model=4: each head needs"),
        ({"d_model": 30, "n_heads": 4}, "d_model=30 does not divide into n_heads=4"),
        ({"d_model": 12, "n_heads": 4}, "of an even d_head"),
        ({"n_layers": 0}, "n_layers=0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        GPTConfig(vocabulary=10, **sizes)


def test_sizes_of_one_are_allowed() -> None:
    least = GPTConfig(vocabulary=1, d_model=2, n_layers=1, n_heads=1, context=1)
    assert GPT(least)(torch.zeros(1, 3, dtype=torch.long)).shape == (1, 3, 1), "the mechanism knows no longest text"


def test_defaults_are_mha_and_an_mlp_of_three_times_the_width() -> None:
    config = GPTConfig(vocabulary=10, d_model=32, n_heads=4)
    assert (config.d_head, config.kv_heads, config.mlp_width) == (8, 4, 96)
    told = GPTConfig(vocabulary=10, d_model=32, n_heads=4, n_kv_heads=2, d_mlp=20)
    assert (told.d_head, told.kv_heads, told.mlp_width) == (8, 2, 20)


@pytest.mark.parametrize("config", [SMALL, GPTConfig(vocabulary=90, d_model=16, n_heads=2, n_layers=3)])
def test_the_number_of_parameters_follows_from_the_sizes(config: GPTConfig) -> None:
    """The embedding is counted once: it reads and it writes."""
    kv = config.kv_heads * config.d_head
    attention = 2 * config.d_model**2 + 2 * config.d_model * kv
    block = attention + 3 * config.d_model * config.mlp_width + 2 * config.d_model
    assert GPT(config).n_parameters() == config.vocabulary * config.d_model + config.n_layers * block + config.d_model


def test_initial_weights_are_small_and_residual_writers_smaller_with_depth() -> None:
    config = GPTConfig(vocabulary=500, d_model=64, n_layers=8, n_heads=4)
    for name, weight in GPT(config, seed=2).named_parameters():
        if weight.ndim < 2:
            assert (weight == 1).all(), name
            continue
        writes = name.endswith(("o_proj.weight", "down_proj.weight"))
        assert float(weight.detach().std()) == pytest.approx(0.005 if writes else 0.02, rel=0.05), name


def test_equal_seeds_give_equal_models_and_others_do_not() -> None:
    first, again, other = (GPT(SMALL, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(weight, again[name]) for name, weight in first.items())
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_attention_is_causal() -> None:
    model, rows = loud(), torch.randint(0, 300, (1, 12))
    changed = rows.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 300
    before, after = model(rows)[0], model(changed)[0]
    torch.testing.assert_close(before[:6], after[:6])
    assert ((before[6:] - after[6:]).abs().amax(-1) > 1e-3).all()


def test_tokens_are_sampled_by_their_probabilities_at_the_temperature() -> None:
    model, prompt = GPT(GPTConfig(vocabulary=5, d_model=8, n_layers=1, n_heads=1), seed=3).eval(), torch.tensor([0, 3])
    with torch.no_grad():
        model.embedding.weight.mul_(10)
        logits = model(prompt[None])[0, -1]
    warm, cold = ((logits / temperature).softmax(-1) for temperature in (2.0, 0.5))
    assert float((warm - cold).abs().sum()) > 0.4
    drawn = [next(model.generate(prompt, 1, temperature=0.5, seed=seed)) for seed in range(150)]
    shares = torch.bincount(torch.tensor(drawn), minlength=5) / 150
    assert float((shares - cold).abs().sum()) < 0.2


def test_generation_is_lazy_and_ends_after_n_new_tokens() -> None:
    model, prompt = loud(), torch.tensor([0, 5])
    assert list(model.generate(prompt, 0)) == []
    assert len(list(model.generate(prompt, 7))) == 7
    first = next(model.generate(prompt, 40, temperature=0.0))
    assert [first] == list(model.generate(prompt, 1, temperature=0.0))
