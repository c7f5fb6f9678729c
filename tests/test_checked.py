"""Arguments of public functions are checked when they are called: types, and values out of a fixed set."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

import headscope
from headscope import attention
from headscope.checked import checked
from headscope.errors import HeadscopeError, InputError
from headscope.heads.look.look import Look
from headscope.lab.train.options import TrainingOptions
from headscope.scope import Scope

TEXT = "My white horse drank at the river. My white horse drank at the"
GIVEN: dict[str, Any] = {
    "what": "5.1", "writer": "4.3", "reader": "5.6", "span": [1, 2], "readers": ("5.6",), "texts": [TEXT],
    "clean": TEXT, "corrupted": TEXT, "metric": (" river", " horse"), "lengths": [3], "d_rotary": 4, "head": "5.6",
    "site": "5",
}  # fmt: skip


@pytest.fixture(scope="module")
def scope() -> Scope:
    return headscope.load()


def public() -> Iterator[tuple[str, Any]]:
    """Every public function, class and method, and its name."""
    for module in (headscope, attention):
        for name in module.__all__:
            yield name, getattr(module, name)
    for kind in (Scope, Look, TrainingOptions):
        yield kind.__name__, kind
        yield from ((f"{kind.__name__}.{name}", each) for name, each in vars(kind).items() if inspect.isfunction(each))


def literals() -> Iterator[tuple[str, Any, str, tuple[Any, ...]]]:
    """Every parameter with a fixed set of values."""
    for name, each in public():
        if name.split(".")[-1].startswith("_") or not callable(each):
            continue
        function = inspect.unwrap(each.__init__ if inspect.isclass(each) else each)
        names = vars(typing) | getattr(function, "__globals__", {})
        for parameter, written in getattr(function, "__annotations__", {}).items():
            if parameter == "return" or not isinstance(written, str):
                continue
            try:
                hint = eval(written, dict(names))
            except NameError:
                continue
            if get_origin(hint) is Literal:
                yield name, each, parameter, get_args(hint)


FOUND = list(literals())


def test_the_walk_finds_the_parameters_with_a_fixed_set_of_values() -> None:
    found = {f"{name} {parameter}" for name, _, parameter, _ in FOUND}
    assert found >= {
        "ablate how", "path into", "path norm", "hide queries", "padding side", "Rope pairing", "ScanOptions broken",
        "Scope.importance how", "Scope.patching at", "Scope.patching by", "Scope.patching how", "Scope.prune by",
        "Scope.composition through", "Scope.compositions through",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function", "parameter", "values"), FOUND, ids=[f"{name} {parameter}" for name, _, parameter, _ in FOUND]
)
def test_a_value_outside_of_the_set_is_refused_with_the_set(
    scope: Scope, name: str, function: Any, parameter: str, values: tuple[Any, ...]
) -> None:
    takes = inspect.signature(function).parameters.values()
    given = {one.name: GIVEN[one.name] for one in takes if one.default is one.empty and one.name in GIVEN}
    several = [given.pop(one.name) for one in takes if one.kind is one.VAR_POSITIONAL]
    start = [scope] if name.startswith("Scope.") else []
    given.pop(parameter, None)
    with pytest.raises(InputError) as refused:
        function(*start, *several, **given, **{parameter: "zzz"})
    assert f"{parameter}='zzz'" in str(refused.value)
    assert all(repr(value) in str(refused.value) for value in values)


def test_a_value_of_the_set_is_taken_in_upper_and_lower_case(scope: Scope) -> None:
    assert scope.composition("4.3", "5.6", "K") == scope.composition("4.3", "5.6", "k") > 0.1  # type: ignore[arg-type]
    assert scope.compositions("K").scores.equal(scope.compositions("k").scores)  # type: ignore[arg-type]
    assert headscope.ablate("5.1", how="Mean") == headscope.ablate("5.1", how="mean")  # type: ignore[arg-type]


@checked
def example(count: int, names: typing.Sequence[str] = (), *, share: float | None = None) -> str:
    return f"{count} {list(names)} {share}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": "3"}, "example(count='3'): count is a whole number, not a text"),
        ({"count": 3, "names": "abc"}, "example(names='abc'): names is a list, each a text, not a text"),
        ({"count": 3, "names": [1]}, "example(names=[1]): names is a list, each a text, not a list"),
        ({"count": 3, "share": "all"}, "example(share='all'): share is a number or None, not a text"),
        ({"number": 3}, "example(): missing a required argument: 'count'. It takes count, names, share"),
        ({"count": 3, "n": 3}, "example(): got an unexpected keyword argument 'n'. It takes count, names, share"),
    ],
)
def test_the_error_says_what_to_give(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        example(**given)
    assert str(refused.value) == message


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    import numpy as np

    class Size:
        def __index__(self) -> int:
            return 3

    assert checked(_index)(np.int64(3)) == checked(_index)(Size()) == checked(_index)(torch.tensor(3)) == 3


def _index(count: int) -> int:
    return count.__index__()


WRONG: dict[str, tuple[Any, str]] = {
    "no CUDA": (lambda scope, look: headscope.load(device="cuda"), "device='cuda' cannot be used here"),
    "no device": (lambda scope, look: headscope.load(device="tpu9"), "device='tpu9' cannot be used here"),
    "positions": (
        lambda scope, look: headscope.patch("5.6", None, look),
        "positions is a whole number or a list",
    ),
    "heads in a list": (lambda scope, look: headscope.ablate(["5.6"]), "what is a head such as '5.6' or (5, 6)"),
    "a site": (lambda scope, look: look.statistics(9), "there is no site 9: this model has layers 0–7"),
    "a picture": (lambda scope, look: look.save("head.svg"), "look.plot(head).save(path)"),
    "a page": (lambda scope, look: look.save("look.html"), "look.save_html(path)"),
    "tokens": (lambda scope, look: scope.generate("a", do_sample=True), "It takes temperature, top_k, top_p, seed"),
    "twice": (
        lambda scope, look: scope.generate("a", sampling=headscope.Sampling(), top_k=3),
        "give the settings in one of the two",
    ),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_calls_that_crashed_or_misled_say_what_to_write(scope: Scope, call: Any, message: str) -> None:
    if torch.cuda.is_available() and "cuda" in message:
        pytest.skip("there is a CUDA device here")
    with pytest.raises(HeadscopeError) as refused:
        call(scope, scope.look(TEXT))
    assert message in str(refused.value)


def test_sites_are_named_by_number_or_text_everywhere(scope: Scope) -> None:
    look = scope.look(TEXT)
    assert look.z(5).equal(look.z("5"))
    assert look.statistics(5).entropy.equal(look.statistics("5").entropy)
    assert look.mean_answers(5).keys() == look.mean_answers("5").keys()
    assert list(look.contributions(-1, sites=[5]).sites) == ["5"]
    assert look.query_tokens(5) == look.key_tokens(5) == look.tokens


def test_generation_takes_the_settings_of_transformers(scope: Scope) -> None:
    ours = scope.generate(TEXT, 3, headscope.Sampling(temperature=0.7, seed=1))
    assert scope.generate(TEXT, max_new_tokens=3, temperature=0.7, seed=1).text == ours.text


def test_a_hub_name_that_cannot_be_reached_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "https://nowhere.invalid")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(HeadscopeError, match=r"is not on this machine, and nowhere\.invalid cannot be reached \("):
        headscope.load("somebody/a-model-that-is-not-here")


def test_what_holds_tensors_is_printed_by_shapes_and_ranges(scope: Scope) -> None:
    seen = scope.look("The cat and the dog.").statistics("5")
    assert "\n  entropy: 1 × 8 × 7, from 0 to " in str(seen)
    question = headscope.Question(query=torch.arange(3), key=torch.arange(3))
    assert str(question) == "Question\n  query: 1 × 3, from 0 to 2\n  key: 1 × 3, from 0 to 2\n  exclude_self: False"


@pytest.mark.parametrize("wrong", [{"zzz": 1}, {"site": "5"}])
def test_a_wrong_name_of_an_argument_is_refused_where_types_are_not_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^Head\(\): .*It takes site, head"):
        headscope.Head(**wrong)
