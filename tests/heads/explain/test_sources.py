"""Sources: effects equal plain transformers with a mask, verdicts follow from them, carriers add up to them."""

from __future__ import annotations

import html
import math
from pathlib import Path

import pytest
import torch
import transformers

import headscope
from headscope.attention.observer import Call, plain
from headscope.errors import EditError, InputError
from headscope.heads.edits.hidden_keys import weights_of
from headscope.heads.explain.carriers import by_head, slopes_at
from headscope.heads.explain.sources import LEAST, Sources
from headscope.models.structure.points import Point, gradients_at
from headscope.scope import EMBEDDED, Scope

DOCUMENTS = [
    "The old sailor kept a parrot in the garden.",
    "A small boy found the lantern under the table.",
    "My white horse drank at the river in the morning.",
    "The king gave the doctor a golden ring.",
]
QUESTION = "My white horse drank at the"


@pytest.fixture(scope="module")
def scope() -> Scope:
    return headscope.load()


@pytest.fixture(scope="module")
def found(scope: Scope) -> Sources:
    return scope.sources(DOCUMENTS, QUESTION, expected=" garden")


def plain_effects(prompt: str, answers: tuple[str, ...], spans: list[range]) -> torch.Tensor:
    """Log-probabilities that answers lose when spans are hidden, by plain transformers and a 4-D mask."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(EMBEDDED)
    how = {"attn_implementation": "eager", "dtype": torch.float32}
    model = transformers.AutoModelForCausalLM.from_pretrained(EMBEDDED, **how).eval()
    begun = tokenizer(prompt, return_tensors="pt")["input_ids"]

    def read(answer: str, hidden: range | None) -> float:
        wanted = tokenizer(answer, add_special_tokens=False)["input_ids"]
        ids = torch.cat([begun, torch.tensor([wanted])], 1)
        length = ids.shape[1]
        seen = torch.ones(length, length, dtype=torch.bool).tril()
        if hidden is not None:
            outside = torch.tensor([row not in hidden for row in range(length)])
            seen[outside] &= torch.tensor([column not in hidden for column in range(length)])
        mask = torch.zeros(1, 1, length, length).masked_fill(~seen, torch.finfo(torch.float32).min)
        with torch.no_grad():
            logits = model(ids, attention_mask=mask, position_ids=torch.arange(length)[None], use_cache=False).logits[0]
        rows = logits[begun.shape[1] - 1 : -1].log_softmax(-1)
        return float(rows[range(len(wanted)), wanted].sum())

    return torch.tensor([[read(answer, None) - read(answer, span) for answer in answers] for span in spans])


def test_effects_equal_plain_transformers_with_a_mask(found: Sources) -> None:
    theirs = plain_effects(found.prompt, found.answers, list(found.spans.values()))
    assert (found.effects - theirs).abs().max() < 1e-4


def test_answers_of_several_tokens_equal_plain_transformers(scope: Scope) -> None:
    answer, expected = " river in the morning", " river of gold"
    found = scope.sources(DOCUMENTS, QUESTION, answer, expected)
    theirs = plain_effects(found.prompt, (answer, expected), list(found.spans.values()))
    assert (found.effects - theirs).abs().max() < 1e-4


def test_spans_hold_the_documents(scope: Scope, found: Sources) -> None:
    tokens = scope.look(found.prompt).tokens
    for number, span in found.spans.items():
        assert "".join(tokens[at].text for at in span).strip() == DOCUMENTS[number - 1]


def test_the_document_that_says_so_is_named(found: Sources) -> None:
    assert found.answers[0] == " river"
    assert found.used == [3]
    assert int(found.effects[:, 0].argmax()) == 2
    assert found.effects[2, 0] > found.null(3) >= LEAST
    assert "came from document 3" in found.sentences()[0]


def test_page_that_is_saved_shows_sentences_and_escaped_documents(scope: Scope, tmp_path: Path) -> None:
    found = scope.sources(["The <b>key</b> is in the barn.", "The boat is on the river."], "The boat is on the")
    found.save_html(tmp_path / "sources.html")
    page = (tmp_path / "sources.html").read_text(encoding="utf-8")
    assert "The &lt;b&gt;key&lt;/b&gt; is in the barn." in page
    assert all(html.escape(sentence) in page for sentence in found.sentences())
    assert "<svg" in page
    assert "<b>key" not in page


def test_document_that_lowers_an_answer_is_not_called_unread(scope: Scope) -> None:
    homes = ["Anna has a small dog. Anna lives in the tower.", "Peter has a cold house. Peter lives in the forest.",
             "Maria has two brothers. Maria lives in the valley."]  # fmt: skip
    found = scope.sources(homes, "Anna lives in the", expected=" tower")
    lowered = [number for number in found.documents if found.verdict(number) == "read, lowers it"]
    assert lowered
    for number in lowered:
        assert found.effects[number - 1].max() < LEAST < -found.effects[number - 1].min()
        assert number not in [*found.used, *found.outvoted]


def test_controls_have_the_length_of_the_document_and_hold_no_answer(scope: Scope, found: Sources) -> None:
    assert set(found.controls) == {
        number for number in found.documents if bool((found.effects[number - 1].abs() > LEAST).any())
    }
    look = scope.look(found.prompt)
    with scope.edit(headscope.hide(range(found.spans[3].start - len(found.spans[3]), found.spans[3].start))):
        near = scope.look(found.prompt)
    river = look.token_id(" river")
    lost = [float(torch.log_softmax(each.logits[-1], -1)[river]) for each in (look, near)]
    assert lost[0] - lost[1] == pytest.approx(float(found.controls[3][-1, 0]), abs=1e-4)


def test_expected_answer_that_a_document_raises_was_outvoted(scope: Scope) -> None:
    documents = ["The horse drank at the well.", *DOCUMENTS[1:]]
    found = scope.sources(documents, QUESTION, answer=" river", expected=" well")
    for number in found.documents:
        given, expected = found.effects[number - 1].tolist()
        outvoted = given <= found.null(number) and expected > found.null(number, 1)
        assert (number in found.outvoted) == outvoted
        assert any(f"Document {number} was read" in each for each in found.sentences()) == outvoted
    assert 1 in found.outvoted


def test_words_about_times_are_no_more_than_the_effect(scope: Scope) -> None:
    documents = ["The horse drank at the well.", *DOCUMENTS[1:]]
    found = scope.sources(documents, QUESTION, answer=" river", expected=" well")
    said = next(each for each in found.sentences() if "times more likely" in each)
    times = float(said.split("makes “well” ")[1].removeprefix("more than ").split(" times")[0].replace(",", ""))
    assert 0.5 * times <= math.exp(float(found.effects[0, 1])) * 1.001
    assert times <= math.exp(float(found.effects[0, 1])) * 1.05


def test_carriers_add_up_and_beat_random_heads(scope: Scope, found: Sources) -> None:
    carried = found.heads(3)
    assert carried.everything == pytest.approx(float(found.effects[2, 0]))
    assert carried.sum == pytest.approx(carried.everything, rel=0.35)
    assert carried.together > max(carried.random)
    with scope.edit(headscope.hide(found.spans[3], carried.heads)):
        logits = scope.look(found.prompt).logits[-1].log_softmax(-1)
    lost = float(found.whole[0]) - float(logits[scope.look("a").token_id(" river")])
    assert lost == pytest.approx(carried.together, abs=1e-4)
    assert carried.matrix().shape == (8, 8)
    span = found.spans[3]
    assert all(query >= span.stop and key in span for query, key in carried.arrows)
    query, key = carried.arrows[0]
    assert scope.look(found.prompt).weights(carried.heads[0])[query, key] > 0.2
    assert str(carried.heads[0]) in str(carried)


def test_slopes_equal_dense_patterns_in_a_pass_that_keeps_everything(scope: Scope, found: Sources) -> None:
    span, sites, river = found.spans[3], list(scope.model.shape.sites), scope.look("a").token_id(" river")
    inputs, calls = scope.model.prepare(found.prompt).inputs, dict[str, Call]()

    def keep(site: str, call: Call) -> torch.Tensor:
        calls[site] = call
        return plain(call)

    points = [Point("z", site) for site in sites]
    kept = gradients_at(scope.model, inputs, lambda logits: logits[-1].log_softmax(-1)[river], points, keep)
    theirs = []
    for point in points:
        call, slope = calls[point.where], kept[point][0].transpose(0, 1)
        n_heads, n_rows = call.q.shape[1:3]
        weights = weights_of(call, torch.arange(n_heads), torch.arange(n_rows))[0].detach()
        gains = slope @ call.v[0].detach().repeat_interleave(n_heads // call.v.shape[1], 0).transpose(1, 2)
        parts = weights * (gains - (weights * gains).sum(-1, keepdim=True))
        theirs.append(parts[:, span.stop :, span.start : span.stop].sum((1, 2)))
    assert (by_head(slopes_at(found.reader, 0), span) - torch.cat(theirs)).abs().max() < 1e-4


def test_carriers_cost_at_most_ten_passes_and_leave_the_model_alone(scope: Scope, found: Sources) -> None:
    model, asked = scope.model.model, list[int]()
    site = scope.model.output_matrix("0")
    computed, before = list[int](), [weight.requires_grad for weight in model.parameters()]
    hooks = [
        site.register_forward_hook(lambda *_: computed.append(1)),
        model.get_output_embeddings().register_forward_hook(lambda _, args, made: asked.append(made.shape[1])),
    ]
    found.heads(3)
    for hook in hooks:
        hook.remove()
    assert asked == [1] * 5  # two gradients and three cuts, each with the logits of one position
    backward = 2
    assert len(computed) + backward <= 10  # the layers are computed again in each backward pass
    assert [weight.requires_grad for weight in model.parameters()] == before
    assert not any("forward" in vars(module) for module in model.modules())


def test_pair_of_documents_that_say_the_same_is_found(scope: Scope) -> None:
    documents = [DOCUMENTS[2], DOCUMENTS[0], "His white horse drank at the river in the morning.", DOCUMENTS[3]]
    found = scope.sources(documents, QUESTION, " river")
    pairs = found.pairs()
    if 1 not in found.used and 3 not in found.used:
        assert next(iter(pairs)) == (1, 3)
    assert all(found.used.count(number) == 0 for pair in pairs for number in pair)


def test_answer_that_no_document_carries_is_measured_without_all_of_them(scope: Scope) -> None:
    found = scope.sources([DOCUMENTS[0], DOCUMENTS[3]], "The horse drank at the", " gate")
    assert (found.used, scope.sources(DOCUMENTS, QUESTION).bare) == ([], None)
    both = [position for span in found.spans.values() for position in span]
    with scope.edit(headscope.hide(both)):
        logits = scope.look(found.prompt).logits[-1].double().log_softmax(-1)
    assert found.bare is not None
    assert float(found.bare[0]) == pytest.approx(float(logits[scope.look("a").token_id(" gate")]), abs=1e-4)
    shares = [
        f"{math.exp(float(each[0])):.0%}" if each[0] > math.log(0.01) else "under 1%"
        for each in (found.bare, found.whole)
    ]
    assert f"With all of them hidden, it has {shares[0]} instead of {shares[1]}." in found.sentences()


def test_sentences_of_a_document_are_measured_a_level_down(scope: Scope) -> None:
    documents = [DOCUMENTS[0], f"{DOCUMENTS[2]} {DOCUMENTS[1]}", DOCUMENTS[3]]
    inside = scope.sources(documents, QUESTION).within(2)
    assert list(inside.documents.values()) == [DOCUMENTS[2], DOCUMENTS[1]]
    assert inside.used == [1]


def test_whole_prompts_messages_and_positions_are_read_the_same_way(scope: Scope, found: Sources) -> None:
    again = scope.sources(DOCUMENTS, found.prompt, expected=" garden")
    assert torch.equal(again.hidden, found.hidden)
    by_position = scope.sources(list(found.spans.values()), found.prompt, expected=" garden")
    assert torch.equal(by_position.hidden, found.hidden)
    assert [text.strip() for text in by_position.documents.values()] == DOCUMENTS


def test_tables_figures_and_attention(found: Sources) -> None:
    rows = found.table().to_pylist()
    assert [row["verdict"] for row in rows] == [found.verdict(number) for number in found.documents]
    assert 0 < float(found.attention.sum()) < 1
    assert found.plot().svg().count("<rect") > len(DOCUMENTS)
    assert "effect in nats" in str(found)


def test_what_is_done_is_kept_when_it_is_stopped(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    import headscope.heads.explain.sources as module

    seen: list[int] = []

    def stop_at_the_third(task: str, done: int, total: int) -> None:
        seen.append(done)
        if done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "report_progress", stop_at_the_third)
    found = scope.sources(DOCUMENTS, QUESTION)
    assert found.hidden.isnan().any(1).tolist() == [False, False, True, True]
    assert found.verdict(4) == "not measured"
    assert found.sentences() == ["Stopped: 2 of 4 documents not measured."]


@pytest.mark.parametrize(
    ("documents", "question", "message"),
    [
        ([], "Who?", "give at least one text"),
        ([range(90, 99)], "A short prompt", "range(90, 99): the prompt has positions"),
        ([range(2), "not there"], "A short prompt", "document 2 is not in the prompt"),
    ],
)
def test_wrong_documents_are_refused(scope: Scope, documents: list[str], question: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        scope.sources(documents, question)
    assert message in str(refused.value)


def test_edits_in_force_and_unknown_documents_are_refused(scope: Scope, found: Sources) -> None:
    with scope.edit(headscope.ablate("5.6")), pytest.raises(EditError, match="outside"):
        scope.sources(DOCUMENTS, QUESTION)
    with pytest.raises(InputError, match="there are documents 1–4"):
        found.heads(9)
    with pytest.raises(InputError, match="is empty"):
        scope.sources(DOCUMENTS, QUESTION, answer="")
