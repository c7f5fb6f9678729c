"""The film: recorded steps, saving, resuming, and its share of the training time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import headscope
from headscope.errors import InputError
from headscope.heads import film
from headscope.heads.film import Film, TrainingRecorder, _in_context_loss, film_steps
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.lab.train.gpt import GPT, GPTConfig

PROBE = RepeatProbe(vocabulary=60, length=10, rows=2)


def recorder(**given: object) -> TrainingRecorder:
    model = GPT(GPTConfig(vocabulary=60, d_model=16, n_layers=2, n_heads=2))
    text = torch.randint(1, 60, (2, 40))
    return TrainingRecorder(model, text=text, probe=PROBE, sentences={"a": [0, 5, 6]}, **given)  # type: ignore[arg-type]


def test_recorded_steps_are_dense_early_and_end_at_the_end() -> None:
    steps = film_steps(13_600, 90)
    assert steps[0] == 0
    assert steps[-1] == 13_600
    assert steps == sorted(set(steps))
    assert len(steps) >= 60
    assert sum(step < 1000 for step in steps) >= 30


def test_a_film_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = recorder()
    for step in (0, 3, 9):
        made.record(step, loss=1.5, tokens_seen=step * 10, force=True)
        made.show(step)
    made.film.save(tmp_path / "film.safetensors")
    read = Film.load(tmp_path / "film.safetensors")
    assert read.series("step") == [0, 3, 9]
    assert read.series("late_loss") == pytest.approx(made.film.series("late_loss"))
    assert read.heads == ("0.0", "0.1", "1.0", "1.1")
    assert read.best("induction") == pytest.approx(made.film.best("induction"))
    assert read.sentences == [{"text": "a", "tokens": [0, 5, 6]}]
    torch.testing.assert_close(read.patterns[2][0], made.film.patterns[2][0])
    assert read.patterns[0][0].shape == (4, 3, 3)


def test_truncating_removes_what_was_recorded_later() -> None:
    made = recorder()
    for step in (0, 3, 9):
        made.record(step, force=True)
        made.show(step)
    made.film.truncate(5)
    assert made.film.series("step") == [0, 3]
    assert len(made.film.repeats) == len(made.film.text) == len(made.film.entropy) == len(made.film.patterns) == 2


def test_a_model_that_was_training_still_is() -> None:
    made = recorder()
    made.model.train()
    made.record(0)
    assert made.model.training


def test_recording_takes_no_more_than_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock by which a step takes 1 second and a forward 1.5, two of which make a record."""
    now = 0.0
    monkeypatch.setattr(film.time, "perf_counter", lambda: now)
    made = recorder(share=0.02)

    def take_time(*_: object) -> None:
        nonlocal now
        now += 1.5

    next(made.model.children()).register_forward_pre_hook(take_time)
    for step in range(2000):
        now += 1
        made.record(step)
        assert made.spent <= 3 + 0.02 * now, "beyond the first record"
    assert made.spent == 3 * len(made.film.points)
    assert made.film.series("step")[:3] == [0, 296, 443], "the second record ends at second 303, the third at 453"


def test_a_transformers_model_gives_the_film_of_our_own_with_the_same_weights() -> None:
    transformers = pytest.importorskip("transformers")
    from headscope.lab.train.llama_folder import _to_llama, llama_config

    ours = recorder()
    config = transformers.LlamaConfig(**llama_config(ours.model.config, torch.float32))  # type: ignore[arg-type]
    theirs = transformers.LlamaForCausalLM(config)
    theirs.load_state_dict({_to_llama(name): weight for name, weight in ours.model.named_parameters()}, strict=False)
    before = theirs.config._attn_implementation
    other = TrainingRecorder(theirs, text=ours.text, probe=PROBE)
    ours.record(1)
    other.record(1)
    assert theirs.config._attn_implementation == before
    assert len(STANDARD) == other.film.repeats[0].shape[1]
    torch.testing.assert_close(other.film.repeats[0], ours.film.repeats[0], atol=1e-5, rtol=1e-4)
    assert other.film.series("text_loss") == pytest.approx(ours.film.series("text_loss"), abs=1e-4)


def long_rows(length: int) -> torch.Tensor:
    return torch.randint(1, 60, (2, length), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("length", "early", "late"), [(600, (42, 58), (492, 508)), (40, (23, 39), (23, 39)), (9, (0, 8), (0, 8))])  # fmt: skip  # noqa: E501
def test_early_and_late_losses_are_those_around_the_50th_and_500th_token(
    length: int, early: tuple[int, int], late: tuple[int, int]
) -> None:
    """Of a text that is shorter, its last tokens; of one shorter still, all of them."""
    tokens = long_rows(length)
    logits = torch.randn(2, length, 60, generator=torch.Generator().manual_seed(4))
    surprise = -logits[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    found = _in_context_loss(logits, tokens)
    assert found == {
        "text_loss": pytest.approx(float(surprise.mean()), abs=1e-5),
        "early_loss": pytest.approx(float(surprise[:, slice(*early)].mean()), abs=1e-5),
        "late_loss": pytest.approx(float(surprise[:, slice(*late)].mean()), abs=1e-5),
    }


def test_a_point_has_the_losses_of_the_model_at_that_step() -> None:
    made = recorder()
    made.record(7, loss=2.5, tokens_seen=3_000_000_000, force=True)
    (point,) = made.film.points
    assert (point.step, point.tokens_seen, point.loss) == (7, 3_000_000_000, 2.5)
    with torch.no_grad():
        logits = made.model(made.text)
        copies = PROBE.losses(made.model(made.repeated), made.repeated)
    assert point.text_loss == pytest.approx(_in_context_loss(logits, made.text)["text_loss"], abs=1e-5)
    assert (point.first_copy, point.second_copy) == pytest.approx((copies.first, copies.second), abs=1e-5)


def asks(name: str, ids: list[int], i: int, j: int) -> bool:
    """The standard questions, written out. The first token is not asked about itself: it has no choice."""
    return {
        "previous": j == i - 1,
        "itself": j == i,
        "first": j == 0 != i,
        "duplicate": ids[j] == ids[i] and j != i,
        "induction": j > 0 and ids[j - 1] == ids[i] and j != i,
    }[name]


def test_scores_and_entropies_are_those_of_dense_patterns() -> None:
    made = recorder()
    made.record(0, force=True)
    scope = headscope.load(made.model)
    for rows, found in ((made.text, made.film.text[0]), (made.repeated, made.film.repeats[0])):
        looks = [(row, scope.look(row)) for row in rows.tolist()]
        for at, head in enumerate(made.film.heads):
            patterns = [(row, look.pattern(head)) for row, look in looks]
            for number, name in enumerate(STANDARD):
                masses = [
                    float(pattern[i, keys].sum())
                    for row, pattern in patterns
                    for i in range(len(row))
                    if (keys := [j for j in range(i + 1) if asks(name, row, i, j)])
                ]
                assert float(found[at, number]) == pytest.approx(sum(masses) / max(1, len(masses)), abs=1e-5)
            if rows is made.text:
                entropy = torch.cat([torch.special.entr(pattern).sum(-1) for _, pattern in patterns]).mean()
                assert float(made.film.entropy[0][at]) == pytest.approx(float(entropy), abs=1e-5)


def test_a_film_resumed_after_truncation_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, resumed = recorder(), recorder()
    resumed.model.load_state_dict(whole.model.state_dict())
    resumed.text = whole.text
    for step in (0, 3, 9):
        whole.record(step, force=True)
        whole.show(step)
    for step in (0, 3, 5):
        resumed.record(step, force=True)
        resumed.show(step)
    resumed.film.save(tmp_path / "film.safetensors")
    resumed.film = Film.load(tmp_path / "film.safetensors")
    resumed.film.truncate(4)
    resumed.record(9, force=True)
    resumed.show(9)
    assert resumed.film.series("step") == whole.film.series("step")
    assert resumed.film.pattern_steps == [0, 3, 9]
    for name in ("text", "entropy", "repeats"):
        torch.testing.assert_close(torch.stack(getattr(resumed.film, name)), torch.stack(getattr(whole.film, name)))


@pytest.mark.parametrize(
    ("arrays", "about"),
    [
        ({"x": torch.zeros(1)}, None),
        ({"x": torch.zeros(1)}, {"other": "{}"}),
        ({"x": torch.zeros(1)}, {"film": "{"}),
        ({"points.step": torch.zeros(3), "points.loss": torch.zeros(2)}, {"film": '{"schema_version": 1, "heads": [], "sentences": [], "pattern_steps": []}'}),  # noqa: E501
        ({"points.step": torch.zeros(3)}, {"film": '{"schema_version": 1, "heads": [], "sentences": [], "pattern_steps": []}'}),  # noqa: E501
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_film_is_refused(
    tmp_path: Path, arrays: dict[str, torch.Tensor], about: dict[str, str] | None
) -> None:
    save_file(arrays, tmp_path / "f.safetensors", metadata=about)
    with pytest.raises(
        InputError, match=r"f\.safetensors is damaged or in a different format .*; record the film again"
    ):
        Film.load(tmp_path / "f.safetensors")


def test_a_compiled_model_is_observed_uncompiled() -> None:
    made = recorder()
    compiled = torch.compile(made.model, backend="eager")
    other = TrainingRecorder(compiled, text=made.text, probe=PROBE)  # type: ignore[arg-type]
    assert other.model is made.model
    for each in (made, other):
        each.record(0)
    assert torch.equal(other.film.repeats[0], made.film.repeats[0])


def test_a_transformers_model_is_restored_when_recording_fails() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=60, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config).train()
    made = TrainingRecorder(model, text=torch.full((1, 8), 99), probe=PROBE)
    before = model.config._attn_implementation
    with pytest.raises(IndexError):
        made.record(0)
    assert model.config._attn_implementation == before
    assert model.training
