"""The model registry: which session a name finds, what is cached, and what is dropped first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.lab.by_hand import HandSizes, by_hand

from headscope.app.model_registry import KEPT_MADE, KEPT_OF_ONE, KEPT_OPENED, ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.errors import InputError
from headscope.models.native import NativeModel
from headscope.scope import Scope

STUDENTS = 64


def made(name: str) -> Scope:
    """A model that costs next to nothing."""
    return Scope(NativeModel(by_hand("previous token", HandSizes(vocabulary=8)), None, name))


@pytest.fixture
def given() -> list[Session]:
    return [Session(made("first")), Session(made("second"))]


def test_the_first_session_is_the_default_and_others_are_found_by_name(given):
    registry = ModelRegistry(*given)
    assert registry.session() is given[0]
    assert registry.session("second") is given[1]
    registry.add("crafted", made("crafted"))
    assert registry.session() is given[0]
    assert registry.names() == ["first", "second", "crafted"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("third", r"there is no model 'third' on this page; it has first, second\n"), ("", r"no model '' on this page")],
)
def test_an_unknown_model_is_refused_with_the_known_names(given, name, said):
    with pytest.raises(InputError, match=said):
        ModelRegistry(*given).session(name)


def test_a_class_of_clients_keeps_all_of_its_models(given):
    registry, crafted = ModelRegistry(*given), made("crafted")
    for student in range(STUDENTS):
        registry.add("heads", crafted, str(student))
    assert all(registry.session("heads", str(student)).scope is crafted for student in range(STUDENTS))


def test_a_model_belongs_to_the_client_that_made_it(given):
    registry, mine, theirs = ModelRegistry(*given), made("mine"), made("theirs")
    registry.add("heads", mine, "me")
    assert registry.names("me") == ["first", "second", "heads"]
    assert registry.names("them") == registry.names() == ["first", "second"]
    with pytest.raises(InputError, match=r"there is no model 'heads' on this page; it has first, second\n"):
        registry.session("heads", "them")
    registry.add("heads", theirs, "them")
    assert registry.session("heads", "me").scope is mine
    assert registry.session("heads", "them").scope is theirs


def test_one_client_cannot_push_out_the_models_of_others(given):
    registry, crafted = ModelRegistry(*given), made("crafted")
    registry.add("heads", crafted, "me")
    for number in range(2 * KEPT_MADE):
        registry.add(f"heads {number}", crafted, "them")
    assert registry.session("heads", "me").scope is crafted
    assert registry.names("them")[2:] == [f"heads {2 * KEPT_MADE - KEPT_OF_ONE + number}" for number in range(8)]


def test_a_dropped_model_is_not_held_by_its_looks(given):
    registry = ModelRegistry(*given)
    registry.add("heads", made("crafted"), "me")
    dropped = registry.session("heads", "me")
    dropped.adopt(dropped.scope.look([1, 2, 3]))
    registry.add("heads", made("newer"), "me")
    assert not dropped.kept.names()
    assert not registry.session("first").kept.whole.looks


def test_the_least_recently_used_model_is_dropped(given):
    registry, crafted = ModelRegistry(*given), made("crafted")
    for number in range(KEPT_MADE):
        registry.add("heads", crafted, str(number))
    in_use = registry.session("heads", "0")
    registry.add("heads", crafted, "one more")
    assert registry.session("heads", "0") is in_use
    assert registry.names("1") == ["first", "second"]
    assert all(len(registry.names(str(number))) == 3 for number in range(2, KEPT_MADE))
    assert registry.session("first") is given[0]


def test_concurrent_requests_open_a_model_once(given):
    asked: list[str] = []

    def opener(name: str) -> Scope:
        asked.append(name)
        time.sleep(0.05)
        return made(name)

    registry = ModelRegistry(*given, opener=opener)
    with ThreadPoolExecutor(4) as tabs:
        assert set(tabs.map(registry.open, ["large"] * 4)) == {"large"}
    assert asked == ["large"]
    assert registry.names() == ["first", "second", "large"]


def test_models_are_opened_one_at_a_time(given):
    opening = threading.Semaphore()

    def opener(name: str) -> Scope:
        assert opening.acquire(blocking=False), "another one is being opened"
        time.sleep(0.02)
        opening.release()
        return made(name)

    registry = ModelRegistry(*given, opener=opener)
    with ThreadPoolExecutor(KEPT_OPENED) as tabs:
        assert list(tabs.map(registry.open, ["one", "two"])) == ["one", "two"]


def test_an_opener_that_fails_leaves_the_registry_usable(given):
    def opener(name: str) -> Scope:
        if name == "broken":
            raise InputError("broken: its weights are cut short")
        return made(name)

    registry = ModelRegistry(*given, opener=opener)
    with pytest.raises(InputError, match="cut short"):
        registry.open("broken")
    assert registry.open("whole") == "whole"
