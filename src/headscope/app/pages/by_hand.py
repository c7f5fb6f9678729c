"""The worked example and its exercises, as the page asks for them: every number comes from the lab."""

from __future__ import annotations

from headscope.app.pages import schema_lab as lab
from headscope.lab.teach.exercises import BOXES, Checked, InventTwoHeads, check_fork
from headscope.lab.teach.worked_example import FEATURES, HeadWork, Worked, WorkedExample, work


def worked(asked: lab.WorkedRequest) -> lab.WorkedCard:
    """The example with the person's changes, computed."""
    done = work(WorkedExample.from_dict(asked.model_dump(exclude_none=True)))
    example = done.example
    return lab.WorkedCard(
        sentence=example.sentence,
        reader=example.reader,
        features=list(FEATURES),
        x=example.x,
        values=example.values,
        W_O=example.W_O,
        heads=[
            lab.HandHeadCard(asks=head.asks, W_Q=head.W_Q, W_K=head.W_K, scorecard=head.scorecard)
            for head in example.heads
        ],
        work=[_head(done, index, each) for index, each in enumerate(done.heads)],
        concatenated=done.concatenated,
        through_identity=done.through_identity,
        mixed=done.mixed,
        steps=[lab.StepCard(title=step.title, says=step.says, lines=step.lines) for step in done.steps],
    )


def exercise() -> lab.ExerciseCard:
    invent = InventTwoHeads()
    return lab.ExerciseCard(sentence=invent.sentence, reader=invent.reader, values=invent.values, boxes=list(BOXES))


def check_invented(asked: lab.InventedRequest) -> lab.CheckedCard:
    """Two invented heads; a sum left empty is not asked about."""
    said = [text for text in asked.sums if text.strip()]
    return _checked(InventTwoHeads().check(asked.heads, said if len(said) == len(asked.sums) else ()))


def check_drawn(asked: lab.ForkRequest) -> lab.CheckedCard:
    return _checked(check_fork(asked.arrows))


def _head(done: Worked, index: int, head: HeadWork) -> lab.HandHeadWork:
    card, values = done.example.heads[index].scorecard, done.example.values
    return lab.HandHeadWork(
        query=head.query,
        keys=head.keys,
        scores=head.scores,
        weights=head.weights,
        products={word: [card[word] * number for number in row] for word, row in values.items()},
        delivered=head.z,
    )


def _checked(checked: Checked) -> lab.CheckedCard:
    remarks = [lab.RemarkCard(about=each.about, right=each.right, says=each.says) for each in checked.remarks]
    return lab.CheckedCard(right=checked.right, remarks=remarks)
