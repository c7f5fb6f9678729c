"""The model registry: which session a name finds, what is cached, and what is dropped first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headscope.app import model_registry as registry_module
from headscope.app.model_registry import KEPT_MADE, KEPT_OPENED, ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.errors import InputError
from headscope.lab.teach.by_hand import HandSizes, by_hand
from headscope.models.native import NativeModel
from headscope.scope import Scope

STUDENTS = 64


def made(name: str) -> Scope:
    """A model that costs next to nothing."""
    return Scope(NativeModel(by_hand("previous token", HandSizes(vocabulary=8)), None, name))


@pytest.fixture
def given() -> list[Session]:
    return [Session(made("first")), Session(made("second"))]


def test_a_page_opens_on_the_first_and_finds_the_others_by_name(given):
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
def test_a_name_that_is_not_there_is_answered_with_those_that_are(given, name, said):
    with pytest.raises(InputError, match=said):
        ModelRegistry(*given).session(name)


@pytest.mark.parametrize("name", [None, "first"])
def test_an_empty_registry_says_that_it_has_none(name):
    with pytest.raises(InputError, match=r"there is no model .* on this page; it has none\n"):
        ModelRegistry().session(name)


def test_two_models_of_one_name_cannot_be_told_apart():
    with pytest.raises(InputError, match=r"two of these models have one name \(one, one\); rename a folder"):
        ModelRegistry(Session(made("one")), Session(made("one")))


def test_a_class_in_which_everybody_makes_heads_keeps_them_all(given):
    registry, crafted = ModelRegistry(*given), made("crafted")
    for student in range(STUDENTS):
        registry.add(f"heads {student}", crafted)
    assert all(registry.session(f"heads {student}").scope is crafted for student in range(STUDENTS))


def test_what_nobody_has_used_for_longest_goes_first(given):
    registry, crafted = ModelRegistry(*given), made("crafted")
    for number in range(KEPT_MADE):
        registry.add(f"heads {number}", crafted)
    in_use = registry.session("heads 0")
    registry.add("one more", crafted)
    assert registry.session("heads 0") is in_use
    assert "heads 1" not in registry.names()
    assert len(registry.names()) == len(given) + KEPT_MADE
    assert registry.session("first") is given[0]


def test_a_model_made_again_keeps_its_place_and_takes_no_second_one(given):
    registry, newer = ModelRegistry(*given), made("newer")
    registry.add("heads", made("older"))
    registry.add("heads", newer)
    assert registry.names() == ["first", "second", "heads"]
    assert registry.session("heads").scope is newer


def test_a_registry_without_an_opener_names_what_it_has_and_the_way_out(given):
    registry = ModelRegistry(*given)
    assert not registry.opens
    with pytest.raises(InputError, match=r"may show first, second and open no other; for 'gpt2' start it with"):
        registry.open("gpt2")
    with pytest.raises(InputError, match="this page may show no model and open no other"):
        ModelRegistry().open("gpt2")


def test_two_tabs_that_ask_for_one_model_open_it_once(given):
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


def test_two_models_are_never_opened_beside_each_other(given):
    opening = threading.Semaphore()

    def opener(name: str) -> Scope:
        assert opening.acquire(blocking=False), "another one is being opened"
        time.sleep(0.02)
        opening.release()
        return made(name)

    registry = ModelRegistry(*given, opener=opener)
    with ThreadPoolExecutor(KEPT_OPENED) as tabs:
        assert list(tabs.map(registry.open, ["one", "two"])) == ["one", "two"]


def test_an_opened_model_that_is_looked_at_stays_when_another_comes(given):
    registry = ModelRegistry(*given, opener=made)
    for number in range(KEPT_OPENED):
        registry.open(f"large {number}")
    registry.session("large 0")
    registry.open("another")
    assert registry.names() == ["first", "second", "large 0", "another"]


def test_what_is_open_already_is_not_opened_again(given):
    def never(name: str) -> Scope:
        raise AssertionError(name)

    assert ModelRegistry(*given, opener=never).open("second") == "second"


def test_a_folder_that_bears_the_name_of_a_given_model_does_not_take_its_place(given):
    registry = ModelRegistry(*given, opener=lambda _: made("first"))
    with pytest.raises(InputError, match="already shows another model that is called 'first'; rename the folder"):
        registry.open("elsewhere/first")
    assert registry.session("first") is given[0]


def test_an_opener_that_fails_leaves_the_registry_usable(given):
    def opener(name: str) -> Scope:
        if name == "broken":
            raise InputError("broken: its weights are cut short")
        return made(name)

    registry = ModelRegistry(*given, opener=opener)
    with pytest.raises(InputError, match="cut short"):
        registry.open("broken")
    assert registry.open("whole") == "whole"


def test_the_list_can_be_read_while_others_make_models(given, monkeypatch):
    monkeypatch.setattr(registry_module, "KEPT_MADE", 3)
    registry, crafted, stop = ModelRegistry(*given), made("crafted"), threading.Event()

    def keep_making() -> None:
        number = 0
        while not stop.is_set():
            registry.add(f"heads {number}", crafted)
            number += 1

    maker = threading.Thread(target=keep_making)
    maker.start()
    try:
        for _ in range(300):
            kept = registry.sessions()
            assert list(kept)[:2] == ["first", "second"]
            assert len(kept) <= 5
    finally:
        stop.set()
        maker.join()
