"""Send thousands of requests generated from the OpenAPI schema: no answer is a server error.

schemathesis generates valid and invalid requests. Each is sent as generated, with most of its names replaced by
existing ones, and with all of them replaced: an unknown name is refused early. HEADSCOPE_FUZZ_CALLS sets their number
(2,000), HEADSCOPE_FUZZ_SEED draws others.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import Censuses
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, application
from headscope.app.wire import unpack
from headscope.scan.options import ScanOptions
from headscope.scope import Scope
from tests.app.conftest import scope

pytestmark = pytest.mark.slow

__all__ = ["scope"]

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install headscope[dev]")

CALLS = int(os.environ.get("HEADSCOPE_FUZZ_CALLS", "2000"))
SEED = int(os.environ.get("HEADSCOPE_FUZZ_SEED", "0"))
SLOW = {
    "POST /api/lab/one-or-many": 1, "POST /api/roles": 1, "POST /api/lab/craft/open": 10,
    "POST /api/censuses": 3, "POST /api/trace": 5,
}  # fmt: skip
SMALL = {
    "steps": {"one-or-many": 20},
    "seeds": {"one-or-many": 1},
    "d_model": {"one-or-many": 8},
}
KNOWN_SHARES = (0.0, 0.8, 1.0)
TEXT = "the old lamp on the landing burned until morning"


@pytest.fixture
def client(scope: Scope, tmp_path: Path) -> Iterator[TestClient]:
    options = ScanOptions(context=32, replicates=4, examples=1)
    for name in ("one", "two"):
        scope.scan([TEXT, TEXT], out=tmp_path / name, options=options)
    made = application(ModelRegistry(Session(scope)), censuses=Censuses([tmp_path / "one", tmp_path / "two"]))
    with TestClient(made, base_url=f"http://{HOST}", raise_server_exceptions=False) as opened:
        yield opened


class Fuzz:
    """One server, and the outcomes of the requests so far."""

    def __init__(self, client: TestClient, scope: Scope) -> None:
        self.client = client
        look = unpack(client.post("/api/look", json={"text": TEXT}).content).values["look"]
        self.known: dict[str, list[Any]] = {
            "look": [look],
            "text": [TEXT, TEXT.upper(), " "],
            "head": [str(head) for head in scope.shape.heads()],
            "off": [["0.1"], ["0.0", "1.5"], []],
            "site": list(scope.shape.sites),
            "model": [scope.shape.name],
            "position": [0, 3, 8, 9],
            "rows": [[0, 9], [3, 4], [5, 99]],
            "columns": [[0, 9], [2, 2]],
            "sentence": ["The horse crossed the road because it was tired ."],
            "steps": [1, 2],
            "number": [0, 1, 2],
            "other": [1, 2],
            "question": ["previous", "entropy", 1],
            "name": ["gpt2", scope.shape.name],
        }
        self.statuses: Counter[int] = Counter()
        self.answered: Counter[str] = Counter()

    def operations(self) -> dict[str, Any]:
        schema = schemathesis.openapi.from_dict(self.client.get("/openapi.json").json())
        found = [result.ok() for result in schema.get_all_operations()]
        return {f"{one.method.upper()} {one.path}": one for one in found}

    def run(self, name: str, operation: Any, calls: int) -> None:
        @seed(SEED)
        @settings(
            max_examples=calls, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(self.cases(operation))
        def ask(drawn: tuple[Any, Any]) -> None:
            for share in KNOWN_SHARES if has_inputs(operation) else (0.0,):
                self.send(name, *drawn, share)

        ask()

    def cases(self, operation: Any) -> st.SearchStrategy[Any]:
        modes = [operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)]
        if has_inputs(operation):
            modes.append(operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
        return st.tuples(st.one_of(modes), st.randoms(use_true_random=False))

    def send(self, name: str, case: Any, chance: Any, share: float) -> None:
        sent: dict[str, Any] = {"headers": {**_plain(case.headers), "content-type": "application/json"}}
        if case.body is not schemathesis.core.NOT_SET:
            body = self._with_known(case.body, chance, share) | _small(name) if _is_dict(case.body) else case.body
            sent["content"] = body if isinstance(body, bytes) else json.dumps(body, default=str)
        query = self._with_known(_plain(case.query), chance, share)
        path = self._path(case, chance, share) if case.path_parameters else case.formatted_path
        answer = self.client.request(case.method, path, params=query, **sent)
        self.statuses[int(answer.status_code)] += 1
        self.answered[name] += answer.is_success
        assert answer.status_code < 500, f"{name} {query} {sent.get('content')!r}: {answer.status_code} {answer.text}"
        if not answer.is_success:
            assert set(answer.json()) == {"kind", "message"}, answer.text

    def _with_known(self, values: dict[str, Any], chance: Any, share: float) -> dict[str, Any]:
        known = {key: chance.choice(self.known[key]) for key in values if key in self.known and chance.random() < share}
        return values | known

    def _path(self, case: Any, chance: Any, share: float) -> str:
        parts = self._with_known(_plain(case.path_parameters), chance, share)
        return str(case.path).format_map({key: _address(value) for key, value in parts.items()})


def has_inputs(operation: Any) -> bool:
    return bool(operation.body or operation.query or operation.path_parameters)


def _small(name: str) -> dict[str, int]:
    """Parameters that keep a training run short."""
    last = name.rpartition("/")[2]
    return {field: sizes[last] for field, sizes in SMALL.items() if "/lab/" in name and last in sizes}


def _is_dict(body: Any) -> bool:
    return isinstance(body, dict)


def _plain(container: Any) -> dict[str, Any]:
    return dict(container) if container and container is not schemathesis.core.NOT_SET else {}


def _address(value: Any) -> str:
    return quote(str(value), safe="") or "0"


@pytest.mark.fuzz
def test_no_request_makes_the_server_fail(client: TestClient, scope: Scope) -> None:
    fuzz = Fuzz(client, scope)
    operations = fuzz.operations()
    ordinary = [name for name, one in operations.items() if has_inputs(one) and name not in SLOW]
    for name, operation in operations.items():
        fuzz.run(name, operation, SLOW.get(name, CALLS // len(ordinary) // len(KNOWN_SHARES) + 1))
    told = f"{fuzz.statuses}, answered {fuzz.answered}"
    assert fuzz.statuses.total() >= CALLS, told
    assert fuzz.statuses[200] >= 0.2 * CALLS, told
