"""Agents find, explain, ablate and show a head through the tools alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="agents need the extra mcp, which is part of dev")
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import headscope
from headscope.app.mcp import DATA, MOST_TOKENS, Tools, server

TEXT = "My white horse drank at the river. My white horse drank at the"
TOOLS = ("ablate", "attention", "heads", "look", "model", "show", "sources", "why")
HEADSCOPE = (sys.executable, "-c", "from headscope.cli import main; main()")


@pytest.fixture(scope="module")
def scope():
    return headscope.load()


def asked(scope, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a client of the official package gets from the tools of one open model, in this process."""

    async def run() -> Any:
        async with Client(server(Tools({"embedded": scope}))) as client:
            return await ask(client)

    return anyio.run(run)


def answer(scope, tool: str, **arguments: Any) -> dict[str, Any]:
    found = asked(scope, lambda client: client.call_tool(tool, arguments))
    assert json.loads(found.content[0].text) == found.structured_content
    assert found.is_error == ("error" in found.structured_content)
    return found.structured_content


@pytest.mark.slow
def test_agent_finds_explains_ablates_and_shows_induction_heads_over_standard_input():
    command = StdioServerParameters(command=HEADSCOPE[0], args=[*HEADSCOPE[1:], "mcp"], env=dict(os.environ))

    async def walk() -> None:
        async with Client(command) as client:
            assert sorted(tool.name for tool in (await client.list_tools()).tools) == sorted(TOOLS)

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                return (await client.call_tool(tool, arguments)).structured_content

            (role,) = (await call("heads", role="induction"))["roles"]
            assert role["passed"] == len(role["heads"]) == 4
            best = role["heads"][0]
            assert best["score"] > 0.5 > role["evidence"]["best_with_shuffled_weights"]
            why = await call("why", text=TEXT, head=best["head"])
            assert next(iter(why["key_side"])) == "4.3"
            lost = await call("ablate", text=TEXT, heads=[each["head"] for each in role["heads"]], token=" river")
            assert lost["lost_nats"] > 3 * max(lost["evidence"]["lost_without_random_heads"])
            shown = await client.call_tool("show", {"text": TEXT, "head": best["head"]})
            assert [block.type for block in shown.content] == ["text", "image"]
            assert shown.meta[DATA]["at"].endswith(f"head={best['head']}&token=14")

    anyio.run(walk)


def test_answers_are_short_and_carry_evidence_limits_and_cost(scope):
    for tool, arguments, most in (
        ("look", {"text": TEXT}, 1000), ("attention", {"text": TEXT, "head": "5.6"}, 600),
        ("why", {"text": TEXT, "head": "5.6"}, 900), ("ablate", {"text": TEXT, "heads": ["5.6"]}, 600),
        ("heads", {"role": "induction"}, 1500),
    ):  # fmt: skip
        found = answer(scope, tool, **arguments)
        assert len(json.dumps(found)) < most, tool
        assert found["limits"].endswith("."), tool
        assert found["cost"]["processor_seconds"] > 0, tool
        assert found.get("evidence") or found["roles"][0]["evidence"], tool


def test_answers_equal_python(scope):
    look = scope.look(TEXT)
    keys = {each["token"]: each["weight"] for each in answer(scope, "attention", text=TEXT, head="5.6")["keys"]}
    assert keys[" river"] == pytest.approx(float(look.pattern("5.6")[-1, 7]), abs=6e-4)
    with scope.edit(headscope.ablate("5.6")):
        without = scope.look(TEXT)
    token = look.token_id(" river")
    lost = float(look.logits[-1].log_softmax(-1)[token] - without.logits[-1].log_softmax(-1)[token])
    assert answer(scope, "ablate", text=TEXT, heads=["5.6"])["lost_nats"] == pytest.approx(lost, abs=6e-3)
    documents = ["Anna lives in Paris.", "Tom lives in Rome."]
    found = scope.sources(documents, "Anna lives in", expected=" Rome")
    given = answer(scope, "sources", documents=documents, question="Anna lives in", expected=" Rome")
    assert given["sentences"] == found.sentences()


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "says"),
    [
        ("attention", {"text": TEXT, "head": "99.0"}, "HeadNameError", "99.0: this model has layers 0–7"),
        ("heads", {"role": "nonsense"}, "InputError", "no role is called nonsense"),
        ("look", {"text": "word " * 5000}, "InputError", f"these tools read {MOST_TOKENS}"),
        ("look", {"text": "a", "model": "/etc/passwd"}, "InputError", "is not open here, only embedded"),
        ("ablate", {"text": TEXT, "heads": ["5.6"], "token": " river bank"}, "InputError", "river bank"),
        ("show", {"text": "word " * 200, "head": "5.6"}, "InputError", "tokens do not fit a chat"),
        ("heads", {"role": "induction", "seconds": 1e-3}, "InputError", "stopped after 0.001 s"),
    ],
)
def test_errors_are_json_that_says_what_to_try(scope, tool, arguments, kind, says):
    error = answer(scope, tool, **arguments)["error"]
    assert error["kind"] == kind
    assert says in error["message"]
    assert error["try"] == f"headscope explain {kind}"


def test_long_call_reports_progress(scope, monkeypatch):
    told: list[str] = []

    async def hear(done: float, total: float | None, task: str | None) -> None:
        told.append(f"{task} {done} of {total}")

    monkeypatch.setattr("headscope.app.mcp.BETWEEN", -1.0)
    asked(scope, lambda client: client.call_tool("heads", {"role": "induction"}, progress_callback=hear))
    assert any(each.startswith("probes") for each in told)


@asynccontextmanager
async def served(*options: str) -> AsyncIterator[tuple[str, str]]:
    """The address and the token of tools served over HTTP by a process of its own."""
    command = [*HEADSCOPE, "mcp", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            said = next(line for line in lines if "tools are at" in line)
            token = re.search(r"Bearer (\S+)", said)
            yield re.search(r"http://\S+", said)[0].replace("0.0.0.0", "127.0.0.1"), token[1] if token else ""
        finally:
            process.terminate()


@pytest.mark.slow
def test_http_needs_the_token_that_was_printed_when_other_machines_reach_it():
    async def walk() -> None:
        async with served("--host", "0.0.0.0") as (address, token):
            refused = httpx2.post(address, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert refused.status_code == 401
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
                Client(streamable_http_client(address, http_client=http)) as client,
            ):
                found = await client.call_tool("attention", {"text": TEXT, "head": "5.6"})
                assert found.structured_content["keys"][0]["token"] == " river"

    anyio.run(walk)


def test_tools_keep_to_the_budget_of_a_page_in_a_chat(scope):
    page = asked(scope, lambda client: client.read_resource("ui://headscope/head.html")).contents[0]
    assert page.mime_type == "text/html;profile=mcp-app"
    shown = asked(scope, lambda client: client.call_tool("show", {"text": TEXT, "head": "5.6"}))
    assert len(page.text) + len(shown.meta[DATA]["data"]) < 700_000
    assert "@font-face" not in page.text
