"""Which document an answer came from: what the answer loses when each is hidden, and the attention it gets.

A document is hidden from every query outside of it, in every head. It still reads itself, and positions do not change.
What decides is this effect, next to that of hiding other stretches of the same length; attention is shown because
people look at it. Heads that carry a document are chosen by integrated gradients (Sundararajan et al. 2017) and
verified by cutting their arrows together, next to as many random heads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import plain
from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.edits.edit import Edit, Edits
from headscope.heads.edits.hidden_keys import hide
from headscope.heads.explain.carriers import Carriers, carriers
from headscope.heads.figure import INK, QUIET, WIDTH, Box, Figure, Label, shown
from headscope.heads.head_table import Rows
from headscope.heads.look.look import Look, span_of
from headscope.models.decoding import Decoder, generation_inputs
from headscope.models.protocol import KEEP, Prepared, Token
from headscope.models.recording import OpenModel

LEAST = math.log(2)  # nats: a smaller effect is none, whatever the controls are
CONTROLS, CARRIERS = 4, 8  # stretches hidden per document; heads that are cut together
MOST_ANSWER = 8  # tokens of the model's own answer: its first word

Verdict = Literal["used", "read, but outvoted", "read, lowers it", "not read", "not measured"]


@dataclass(frozen=True, repr=False)
class Sources(Rows):
    """The effect of every document on the answer given and the one expected. Documents are numbered from 1."""

    prompt: Any
    """The text or messages that the model read."""
    documents: Mapping[int, str]
    spans: Mapping[int, range]
    """The positions of each document in the prompt."""
    answers: tuple[str, ...]
    """The answer given, and the one expected if there is one."""
    whole: Float[Tensor, " answer"]
    """Log-probability of each answer with every document."""
    hidden: Float[Tensor, "document answer"]
    """The same with each document hidden; NaN where the run was stopped before."""
    controls: Mapping[int, Float[Tensor, "stretch answer"]]
    """Effects of hiding other stretches of the same length, for documents with an effect above ln 2."""
    attention: Float[Tensor, " document"]
    """Share of the attention of the positions that predict the answer, mean of all heads, without the first token."""
    passes: int
    reader: DocumentReader = field(repr=False, compare=False)
    bare: Float[Tensor, " answer"] | None = None
    """Log-probability of each answer with all documents hidden, where no document was used."""

    @property
    def effects(self) -> Float[Tensor, "document answer"]:
        """Nats of log-probability that each answer loses without each document."""
        return self.whole - self.hidden

    def null(self, document: int, answer: int = 0) -> float:
        """The effect that a document has to exceed: the largest of its controls, and at least ln 2."""
        return self._null(document, answer)

    def _null(self, document: int, answer: int, sign: int = 1) -> float:
        found = self.controls.get(document)
        return LEAST if found is None or not len(found) else max(LEAST, float((sign * found[:, answer]).max()))

    def verdict(self, document: int) -> Verdict:
        """Whether a document was used, read but outvoted, lowers an answer, or is not read: hiding changes nothing."""
        effects = self.effects[document - 1]
        if effects.isnan().any():
            return "not measured"
        clear = [float(effect) > self.null(document, answer) for answer, effect in enumerate(effects)]
        if any(clear):
            return "used" if clear[0] else "read, but outvoted"
        lowered = any(-float(effect) > self._null(document, answer, -1) for answer, effect in enumerate(effects))
        return "read, lowers it" if lowered else "not read"

    @property
    def used(self) -> list[int]:
        """Documents that the answer depends on: their effect exceeds that of their controls."""
        return [number for number in self.documents if self.verdict(number) == "used"]

    @property
    def outvoted(self) -> list[int]:
        """Documents that raise the expected answer, which was not given."""
        return [number for number in self.documents if self.verdict(number) == "read, but outvoted"]

    def heads(self, document: int, count: int = CARRIERS) -> Carriers:
        """The heads that carry a document: chosen by integrated gradients, cut together, next to random heads.

        For the answer that the document has the larger effect on. Costs some ten forward passes.
        """
        self._number(document)
        answer = int(self.effects[document - 1].abs().nan_to_num(-1).argmax())
        edits = {"everything": float(self.effects[document - 1, answer]), "whole": float(self.whole[answer])}
        return carriers(self.reader, self.spans[document], document, answer, count, **edits)

    def pairs(self) -> dict[tuple[int, int], float]:
        """Nats that the given answer loses without two documents at once, when neither by itself was used.

        Documents that say the same replace each other: hiding one alone shows nothing.
        """
        rest = [number for number in self.documents if number not in self.used]
        every, found = list(combinations(rest, 2)), {}
        for done, pair in enumerate(every):
            report_progress("hiding pairs of documents", done, len(every))
            spans = [position for number in pair for position in self.spans[number]]
            found[pair] = float(self.whole[0] - self.reader.log_probabilities([hide(spans)])[0])
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def within(self, document: int) -> Sources:
        """The same again for the sentences of one document."""
        text = self.documents[self._number(document)]
        sentences = [part for part in re.split(r"(?<=[.!?…])\s+|\n+", text) if part.strip()]
        spans, start = [], self.spans[document].start
        for sentence in sentences:
            spans.append(span_of(self.reader.tokens, sentence, start))
            start = spans[-1].stop
        return self.reader.measured(self.prompt, sentences, spans)

    def sentences(self) -> list[str]:
        """What was found, in words."""
        given, expected = self.answers[0].strip(), self.answers[-1].strip()
        if bool(self.hidden.isnan().any()):
            return [f"Stopped: {int(self.hidden[:, 0].isnan().sum())} of {len(self.documents)} documents not measured."]
        said = []
        if self.used:
            said.append(f"The answer “{given}” came from {_listed(self.used)}, without which it is less likely.")
        else:
            said.append(f"No single document carries the answer “{given}”.")
            if self.bare is not None:
                shares = [_share(math.exp(float(each[0]))) for each in (self.whole, self.bare)]
                said.append(f"With all of them hidden, it has {shares[1]} instead of {shares[0]}.")
                few = float(self.whole[0] - self.bare[0]) <= LEAST
                said.append("So it hardly comes from them." if few else "Two may say the same: hide pairs.")
        for number in self.outvoted:
            times = _times(float(self.effects[number - 1, -1]))
            said.append(f"Document {number} was read: it makes “{expected}” {times} more likely.")
        most = 1 + int(self.attention.argmax())
        if self.verdict(most) == "not read":
            share = _share(float(self.attention.max()))
            said.append(f"Document {most} got the most attention ({share}) and made no clear difference.")
        return said

    def _rows(self) -> list[dict[str, Any]]:
        """A row per document: effects in nats, null, attention, verdict."""
        return [self._row(number) for number in self.documents]

    def to_dict(self) -> dict[str, Any]:
        """Everything that was measured, for JSON."""
        answers = [
            {"text": text, "probability": math.exp(float(p))} for text, p in zip(self.answers, self.whole, strict=True)
        ]
        return {"answers": answers, "documents": self._rows(), "sentences": self.sentences(), "passes": self.passes}

    def save_html(self, path: str | Path) -> None:
        """Save what was found as one page that opens offline: the sentences, the picture, and the documents."""
        texts = "".join(f"<li>{escape(text)}</li>" for text in self.documents.values())
        said = escape(" ".join(self.sentences()))
        body = f"<h1>Where did the answer come from?</h1><p>{said}</p>{self.plot().svg()}<ol>{texts}</ol>"
        style = "body{font:17px/1.5 serif;max-width:44em;margin:2em auto;padding:0 1em}svg{width:100%;height:auto}"
        page = f'<!doctype html><meta charset="utf-8"><title>Sources</title><style>{style}</style>{body}\n'
        write_atomic(Path(path), page.encode())

    def to_short(self) -> dict[str, Any]:
        """Effects, controls, attention and sentences, for a program."""
        from headscope.heads.short import short_sources

        return short_sources(self)

    def plot(self) -> Figure:
        """What each answer loses without each document: solid for the one given, outlined for the one expected."""
        top = max(LEAST, float(self.effects.nan_to_num(0).max()))
        left, wide, tall = 96.0, WIDTH - 118, 22.0
        answers = " and ".join(f"“{shown(answer)}”" for answer in self.answers)
        marks: list[Any] = [Label(4, 9, f"Nats that {answers} loses without each document", 7.0, bold=True)]
        for row, number in enumerate(self.documents):
            y = 16 + row * tall
            marks.append(Label(4, y + 9, f"{number}  {shown(self.documents[number])[:24]}", 6.0))
            marks.append(
                Label(4, y + 16, f"{self.verdict(number)}, attention {self.attention[number - 1]:.0%}", 5.0, fill=QUIET)
            )
            for answer, effect in enumerate(self.effects[number - 1].nan_to_num(0).tolist()):
                length, at = max(0.0, effect) / top * wide, y + 3 + 7 * answer
                marks.append(Box(left, at, length, 5, INK if answer == 0 else QUIET))
                if answer and length > 1:
                    marks.append(Box(left, at + 0.5, length - 0.5, 4, "#FFFFFF"))
                marks.append(Label(left + length + 2, at + 4.5, f"{effect:+.2f}", 5.0))
        return Figure(WIDTH, 18 + tall * len(self.documents), tuple(marks), f"Sources of {answers}")

    def _row(self, number: int) -> dict[str, Any]:
        effects = self.effects[number - 1].tolist()
        row = {"document": number, "text": self.documents[number], "effect": effects[0], "null": self.null(number)}
        if len(effects) > 1:
            row |= {"effect_expected": effects[1], "null_expected": self.null(number, 1)}
        return row | {"attention": float(self.attention[number - 1]), "verdict": self.verdict(number)}

    def _number(self, document: int) -> int:
        if document not in self.documents:
            raise InputError(f"document {document}: there are documents 1–{len(self.documents)}")
        return document

    def __str__(self) -> str:
        words = ("Answer", "Expected")
        lines = [
            f"{word}: “{answer.strip()}” {math.exp(float(number)):.1%}"
            for word, answer, number in zip(words, self.answers, self.whole, strict=False)
        ]
        heads = "".join(f"{shown(answer)[:11]:>12}" for answer in self.answers)
        lines.append(f"{'effect in nats':<34}{heads}  attention")
        for number, text in self.documents.items():
            effects = "".join(f"{effect:>+12.2f}" for effect in self.effects[number - 1].tolist())
            share = f"{self.attention[number - 1]:.1%}"
            lines.append(f"{number:>3} {shown(text)[:29]:<30}{effects}{share:>11}  {self.verdict(number)}")
        return "\n".join((*lines, *self.sentences()))

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.plot().svg()


def sources(
    model: OpenModel, documents: Sequence[str | range], question: Any, answer: str | None, expected: str | None
) -> Sources:
    """Hide every document in turn; see ``Scope.sources``."""
    if not documents:
        raise InputError("sources needs documents; give at least one text")
    prompt = _prompt(documents, question)
    prepared = model.prepare(prompt)
    spans, start = [], 0
    for each in documents:
        span = each if isinstance(each, range) else span_of(prepared.tokens, each, start)
        if not 0 <= span.start < span.stop <= len(prepared.tokens):
            raise InputError(f"{span}: the prompt has positions 0–{len(prepared.tokens) - 1}")
        spans.append(span)
        start = start if isinstance(each, range) else span.stop
    given = _own_answer(model, prompt) if answer is None else answer
    answers = (given,) if expected is None or expected.strip() == given.strip() else (given, expected)
    texts = [
        _text(prepared.tokens, span) if isinstance(each, range) else each
        for each, span in zip(documents, spans, strict=True)
    ]
    return DocumentReader(model, prepared, answers).measured(prompt, texts, spans)


def _prompt(documents: Sequence[str | range], question: Any) -> Any:
    """The question itself where it holds the documents, as chat messages do; else the documents, then the question."""
    whole = "".join(str(each.get("content", "")) for each in question) if isinstance(question, list) else question
    inside = [isinstance(each, range) or each in whole for each in documents]
    if all(inside):
        return question
    if isinstance(question, list) or any(isinstance(each, range) for each in documents):
        first = 1 + inside.index(False)
        raise InputError(
            f"document {first} is not in the prompt that was given; put it there unchanged, or leave out all documents"
        )
    asked = question.strip() + "\nAnswer:" * question.strip().endswith("?")
    return "\n".join((*map(str, documents), asked))


def _own_answer(model: OpenModel, prompt: Any) -> str:
    """The first word of the model's own answer."""
    decoder = Decoder(model, generation_inputs(model, prompt, MOST_ANSWER), lambda _, call: plain(call))
    logits, word = decoder.first(), ""
    for _ in range(MOST_ANSWER):
        token = int(logits.argmax())
        text = model.processor.text_of(token)
        if token in model.end_tokens or (word.strip() and not re.fullmatch(r"[\w'’-]+", text)):
            break
        word += text
        logits = decoder.feed(token)
    return word


class DocumentReader:
    """A prompt and answers, read under edits."""

    def __init__(self, model: OpenModel, prepared: Prepared, answers: tuple[str, ...]) -> None:
        self.model, self.answers, self.tokens, self.passes = model, answers, prepared.tokens, 0
        prompt = [token.id for token in prepared.tokens]
        self.ids = [model.processor.token_ids(answer) for answer in answers]
        empty = next((answer for answer, ids in zip(answers, self.ids, strict=True) if not ids), None)
        if empty is not None:
            raise InputError(f"the answer {empty!r} is empty; give a text, with its leading space if it has one")
        self.prepared: dict[
            tuple[int, ...], Prepared
        ] = {}  # one pass for all answers that begin alike: often of a token each
        for begun in sorted({tuple(ids[:-1]) for ids in self.ids}, key=len, reverse=True):
            if not any(longer[: len(begun)] == begun for longer in self.prepared):
                self.prepared[begun] = model.prepare([*prompt, *begun]) if begun else prepared

    def log_probability(self, answer: int, logits: Float[Tensor, "query vocabulary"]) -> Tensor:
        """The log-probability of one answer, from the last logits of the pass that holds its beginning."""
        ids = self.ids[answer]
        rows = logits[len(logits) - 1 - len(self.begun(answer)) :][: len(ids)].double()
        return rows.log_softmax(-1)[torch.arange(len(ids)), ids].sum()

    def log_probabilities(self, edits: Sequence[Edit]) -> Float[Tensor, " answer"]:
        """The log-probability of every answer under these edits, which hide keys: z is computed from scores alone."""
        under = Edits(self.model, [edit.bind(self.model) for edit in edits])
        found = torch.zeros(len(self.answers), dtype=torch.float64)
        for begun in self.prepared:
            with torch.no_grad():
                hidden = under.run(self.inputs_for(begun), lambda *at: plain(replace(at[1], scores=under.scores(*at))))
            self.passes += 1
            for answer in self.answered_after(begun):
                found[answer] = self.log_probability(answer, hidden.logits[0])
        return found

    @torch.no_grad()
    def measured(self, prompt: Any, documents: Sequence[str], spans: Sequence[range]) -> Sources:
        """Hide every document in turn; an interruption keeps what is done."""
        before = self.passes
        whole = torch.zeros(len(self.answers), dtype=torch.float64)
        for begun, prepared in self.prepared.items():
            look = Look(self.model, prepared).read()
            self.passes += 1
            for answer in self.answered_after(begun):
                whole[answer] = self.log_probability(answer, look.logits)
            if 0 in self.answered_after(begun):
                attention = self._attention(look, spans)
        hidden = torch.full((len(documents), len(self.answers)), math.nan, dtype=torch.float64)
        controls: dict[int, Tensor] = {}
        try:
            for index, span in enumerate(spans):
                report_progress("hiding documents", index, len(spans))
                hidden[index] = self.log_probabilities([hide(span)])
                if bool(((whole - hidden[index]).abs() > LEAST).any()):
                    stretches = self._stretches(index, documents, spans)
                    effects = [whole - self.log_probabilities([hide(each)]) for each in stretches]
                    controls[1 + index] = torch.stack(effects) if effects else whole.new_zeros(0, len(whole))
        except KeyboardInterrupt:
            pass
        numbered = range(1, 1 + len(documents))
        found = Sources(
            prompt, dict(zip(numbered, documents, strict=True)), dict(zip(numbered, spans, strict=True)), self.answers,
            whole, hidden, controls, attention, self.passes - before, self,
        )  # fmt: skip
        if found.used or bool(hidden.isnan().any()):
            return found
        with suppress(KeyboardInterrupt):
            bare = self.log_probabilities([hide([position for span in spans for position in span])])
            found = replace(found, bare=bare, passes=self.passes - before)
        return found

    def inputs_for(self, begun: tuple[int, ...]) -> Mapping[str, Tensor]:
        """The inputs of the pass over the prompt and this beginning; it makes only logits that predict answers."""
        kept = {KEEP: torch.arange(-1 - len(begun), 0)} if KEEP in self.model.takes else {}
        return {**self.prepared[begun].inputs, **kept}

    def begun(self, answer: int) -> tuple[int, ...]:
        """Return the beginning whose pass gives an answer's log-probability: the longest that can."""
        return next(each for each in self.prepared if [*each][: len(self.ids[answer]) - 1] == self.ids[answer][:-1])

    def answered_after(self, begun: tuple[int, ...]) -> list[int]:
        """The answers whose log-probability the pass with this beginning gives."""
        return [answer for answer in range(len(self.ids)) if self.begun(answer) == begun]

    def _attention(self, look: Look, spans: Sequence[range]) -> Float[Tensor, " document"]:
        """The share of attention that each document gets where the answer given is predicted, mean of all heads."""
        rows = slice(len(self.tokens) - 1, len(self.tokens) - 1 + len(self.ids[0]))
        means = torch.stack([look.site_weights(site, rows).double().mean((0, 1)) for site in look.sites]).mean(0)
        means[0] = 0.0  # an attention sink, whatever is written there
        return torch.stack([means[span.start : span.stop].sum() for span in spans])

    def _stretches(self, index: int, documents: Sequence[str], spans: Sequence[range]) -> list[range]:
        """Stretches as long as a document that overlap neither it nor a document that names an answer."""
        names = [answer.strip().lower() for answer in self.answers]
        barred = [
            span for at, (text, span) in enumerate(zip(documents, spans, strict=True))
            if at == index or any(name in text.lower() for name in names)
        ]  # fmt: skip
        length, last = len(spans[index]), max(span.stop for span in spans)
        free = [
            range(start, start + length) for start in range(min(span.start for span in spans), last - length + 1)
            if all(start + length <= span.start or span.stop <= start for span in barred)
        ]  # fmt: skip
        picked = sorted({at * (len(free) - 1) // (CONTROLS - 1) for at in range(CONTROLS)}) if free else []
        return [free[at] for at in picked]


def _text(tokens: Sequence[Token], span: range) -> str:
    return "".join(token.text for token in tokens[span.start : span.stop])


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"documents {', '.join(most)} and {last}" if most else f"document {last}"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else "under 1%"


def _times(nats: float) -> str:
    """How many times likelier, rounded down to what is sure."""
    times = math.exp(nats)
    return f"{times:.1f} times" if times < 10 else f"more than {10 ** int(math.log10(times)):,} times"
