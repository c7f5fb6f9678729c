"""Invalid input ends a command with one error line, naming the value and the way out, and a status."""

from __future__ import annotations

import pytest

from tests.cli.commands import Done, Line, run_all

pytestmark = pytest.mark.slow

# What is typed, the kind of error, and what is said first.
MISTAKES: list[tuple[str, str, str]] = [
    ("look ''", "InputError", "the text is empty; there is nothing to look at"),
    ("look '  '", "InputError", "the text is empty"),
    ("look a\udcffb", "InputError", "the text is not UTF-8: letter 1 is '\\udcff'"),
    ("look hello --head 99.1", "HeadNameError", "99.1: this model has layers 0–7"),
    ("look hello --head 3.8", "HeadNameError", "3.8: site 3 has heads 0–7"),
    ("look hello --save x.gif", "InputError", "x.gif: a figure is saved as .svg, .pdf or .png"),
    ("look hello --head 3.5 --save nowhere/x.png", "InputError", "nowhere/x.png could not be written: No such file"),
    ("look hello --save .", "InputError", ".: a figure is saved as .svg, .pdf or .png"),
    ("look hello --class bad=[", "InputError", "the key pattern '[' of 'bad' is not a regular expression"),
    ("look hello --model plain.txt", "ModelError", "plain.txt is neither a folder with config.json and safetensors"),
    ("look hello --model empty", "ModelError", "empty has no config.json (it holds nothing)"),
    (
        "look hello --model nobody/nothing",
        "ModelError",
        "nobody/nothing is not on this machine, and huggingface.co cannot be reached",
    ),
    ("ablate '' --head 3.5", "InputError", "the text is empty"),
    ("ablate hello --head x", "HeadNameError", "'x' is not a head name; write LAYER.HEAD, such as 5.1"),
    ("ablate hello --head 3.5 --how median", "InputError", "how='median' is not supported. Use 'zero', 'mean' or"),
    ("generate ''", "InputError", "the text is empty"),
    ("generate hi -n 0", "InputError", "n_tokens=0: ask for at least one token"),
    ("generate hi -n 99999", "InputError", "99999 more exceed the 16384 that embedded can read"),
    ("generate hi --top-p 2", "InputError", "top_p=2.0: give a share above 0 and at most 1"),
    ("generate hi --top-k 0", "InputError", "top_k=0 keeps no token; give at least 1"),
    ("generate hi --temperature -1", "InputError", "temperature=-1.0: give 0 (greedy) or more"),
    ("generate hi --temperature nan", "InputError", "temperature=nan: give 0 (greedy) or more"),
    ("generate hi --temperature 1e-320", "InputError", "temperature=1e-320: give 0 (greedy) or more"),
    ("why hello --head 5.6 --query --5", "InputError", "the query '--5' does not occur in this text"),
    ("why hello --head 5.6 --query ²", "InputError", "the query '²' does not occur in this text"),
    (f"why hello --head 5.6 --query {'9' * 5000}", "InputError", "the query '99999"),
    (f"trace hello --position {'9' * 5000}", "InputError", "the token '99999"),
    ("learn build --d-model 99999999999 --heads 1", "ShapeError", "d_model=99999999999"),
    ("learn build --d-model 200000 --heads 1", "ShapeError", "d_model=200000"),
    ("generate hi --head 9.9", "HeadNameError", "9.9: this model has layers 0–7"),
    ("doctor empty", "ModelError", "empty has no config.json"),
    ("heads --inputs 0", "InputError", "inputs=0: a role is tested on 8 to 4096 inputs per probe"),
    ("heads --role nosuch", "InputError", "no role is called nosuch; there are previous token"),
    ("scan -c missing.txt -o census", "InputError", "missing.txt: no such file, folder or pattern"),
    ("scan -c empty.txt -o census", "InputError", "the corpus is empty: it has no text of two tokens or more"),
    ("scan -c empty -o census", "InputError", "the folder empty holds no files"),
    ("scan -c bytes.txt -o census", "InputError", "bytes.txt, line 1: byte 0xff is not UTF-8"),
    ("scan -c plain.txt -o plain.txt", "InputError", "plain.txt cannot be written (File exists)"),
    ("scan -c plain.txt -o census --workers 0", "InputError", "workers=0: give at least 1"),
    ("scan -c plain.txt -o census --context 1", "InputError", "context=1: give at least 2"),
    ("compare missing empty", "InputError", "missing holds no census (tally.safetensors is missing)"),
    ("prune -o new", "InputError", "prune takes either keep=, the share of heads to keep, or heads="),
    ("prune -o new --keep 0.5 -t missing.txt", "InputError", "missing.txt: no such file, folder or pattern"),
    ("prune -o plain.txt --keep 0.5", "InputError", "plain.txt exists and is not empty"),
    ("prune --head 3.5 -o /proc/new", "InputError", "/proc/new"),
    ("serve --no-open --census empty", "InputError", "empty holds no census"),
    (
        "serve --no-open --host nosuch.invalid",
        "InputError",
        "--host nosuch.invalid: this machine has no such address",
    ),
    ("serve --no-open empty", "ModelError", "empty has no config.json"),
    ("learn build --heads 7", "ShapeError", "d_model=768 does not divide into n_heads=7"),
    ("card nosuch", "InputError", "there is no card and no file called 'nosuch'; Names: gpt2"),
    ("card plain.txt", "InputError", "plain.txt is not JSON"),
    ("card empty", "InputError", "there is no config.json in empty"),
    ("card --d-model 64", "InputError", "a card made from sizes needs both --d-model and --heads"),
    ("card gpt2 --kv-heads 4", "InputError", "a card made from sizes needs both --d-model and --heads"),
    ("card gpt2 --length -5", "InputError", "length=-5: give a number of tokens of at least 0"),
    ("learn 99", "InputError", "there is no lesson '99'; there are 0 one-head"),
    ("learn 3 --question 9 --answer b", "InputError", "lesson 3 has questions 1–2, not 9"),
    ("learn 3 --answer maybe", "InputError", "could not read 'maybe' as an answer"),
    ("learn --answer b", "InputError", "--answer b: name the lesson too, as in headscope learn 3 --answer b"),
    ("learn exercise plain.txt", "InputError", "plain.txt does not run"),
    ("explain Nope", "InputError", "there is no error called 'Nope'; there are BackendError"),
    ("train -c missing.txt -o run", "InputError", "missing.txt cannot be read"),
    ("train -c empty.txt -o run", "InputError", "empty.txt has no text; give a file with text"),
    ("train -c bytes.txt -o run", "InputError", "bytes.txt is not UTF-8 text"),
    ("train -c plain.txt -o run --steps 0", "InputError", "steps=0 must be at least 1"),
    ("train -c plain.txt -o run --heads 3", "ShapeError", "d_model=128 does not divide into n_heads=3"),
]

# Typer's own refusals: a command line that cannot be read at all.
MISREAD: list[tuple[str, str]] = [
    ("nosuch", "No such command 'nosuch'"),
    ("look", "give a text, or --capture"),
    ("look one two", "Got unexpected extra argument(s) (two)"),
    ("look hello --heads 3.5", "No such option"),
    ("generate hi -n many", "Invalid value for '--tokens'"),
    ("serve --port 99999", "Invalid value for '--port'"),
    ("generate hi --seed 18446744073709551616", "Invalid value for '--seed'"),
    ("heads --seed -1", "Invalid value for '--seed'"),
    ("train -c book.txt -o run --seed -9223372036854775809", "Invalid value for '--seed'"),
    ("serve --port -1", "Invalid value for '--port'"),
    ("scan -c plain.txt", "Missing option '--out'"),
    ("train", "Missing option '--corpus'"),
]

# The machine's own refusals, which are nobody's mistake in a command: the path and what the machine says.
UNWRITABLE: list[tuple[str, str]] = [
    ("train -c book.txt -o plain.txt --steps 1", "error: plain.txt: File exists"),
]


def words(typed: str) -> tuple[str, ...]:
    return tuple("" if word == "''" else word.replace("_", " ") for word in typed.replace("'  '", "__").split())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("typed")
    (folder / "plain.txt").write_text("The horse crossed the road.\n", encoding="utf-8")
    (folder / "book.txt").write_text("The horse crossed the road because it was tired. " * 900, encoding="utf-8")
    (folder / "empty.txt").write_text("", encoding="utf-8")
    (folder / "bytes.txt").write_bytes(b"\xff\xfe\x00 not text")
    (folder / "empty").mkdir()
    response = run_all({typed: Line(words(typed)) for typed, *_ in (*MISTAKES, *MISREAD, *UNWRITABLE)}, folder)
    response["made"] = Done(0, " ".join(path.name for path in folder.iterdir()), "")
    return response


@pytest.mark.parametrize(("typed", "kind", "message"), MISTAKES, ids=[typed for typed, *_ in MISTAKES])
def test_an_error_is_one_line_and_names_its_page(typed: str, kind: str, message: str, done: dict[str, Done]) -> None:
    status, _, err = done[typed]
    first, *rest = err.splitlines()
    assert first.startswith("error: "), err
    assert message in first
    assert rest == [f"more: headscope explain {kind}"]
    assert status == 1


@pytest.mark.parametrize(("typed", "message"), MISREAD, ids=[typed for typed, _ in MISREAD])
def test_an_invalid_command_line_exits_with_status_two(typed: str, message: str, done: dict[str, Done]) -> None:
    status, out, err = done[typed]
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("typed", "message"), UNWRITABLE, ids=[typed for typed, _ in UNWRITABLE])
def test_an_operating_system_error_is_printed_with_its_path(typed: str, message: str, done: dict[str, Done]) -> None:
    assert done[typed].err.splitlines()[-1] == message
    assert "Traceback" not in done[typed].err
    assert done[typed].status == 1


def test_a_failed_command_prints_no_output_and_leaves_no_files(done: dict[str, Done]) -> None:
    silent = [typed for typed, *_ in MISTAKES if not typed.startswith("train")]
    assert {typed: done[typed].out for typed in silent if done[typed].out} == {}
    assert not {"new", "run", "x.png"} & set(done["made"].out.split())
