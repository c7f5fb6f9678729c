"""A published model on WebGPU, by Chromium's software adapter: compared with WebAssembly first, and never without."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from headscope.app.publish.webgpu import FOLDER, MEMBERS, RUNTIME, SCRIPT
from headscope.scope import Scope
from tests.app.conftest import SENTENCE
from tests.e2e.conftest import ARGUMENTS, CHROMIUM
from tests.e2e.reading import at
from tests.e2e.without_server.conftest import Quiet, served, watched

PACKAGE = Path(__file__).parents[3] / "web" / "node_modules" / "onnxruntime-web"
TEXT = " ".join(SENTENCE.split()[:12])
SOFTWARE = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]
BROWSERS = {
    "agrees": [*(each for each in ARGUMENTS if each != "--disable-gpu"), *SOFTWARE],
    "no adapter": ARGUMENTS,
}
ADAPTER = "async () => Boolean(navigator.gpu && (await navigator.gpu.requestAdapter()))"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="onnxruntime-web is not installed: npm ci in web/")


@pytest.fixture(scope="module")
def webgpu_site(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The small model's site with the second runtime beside it."""
    folder = tmp_path_factory.mktemp("webgpu")
    for path in published.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / FOLDER).mkdir()
    script, runtime = (PACKAGE / MEMBERS[name].removeprefix("package/") for name in (SCRIPT, RUNTIME))
    (folder / FOLDER / SCRIPT).symlink_to(script)
    (folder / FOLDER / RUNTIME).write_bytes(gzip.compress(runtime.read_bytes(), 1))
    described = json.loads((folder / "site.json").read_text(encoding="utf-8"))
    described["webgpu"] = {"script": f"{FOLDER}/{SCRIPT}", "runtime": f"{FOLDER}/{RUNTIME}"}
    (folder / "site.json").unlink()
    (folder / "site.json").write_text(json.dumps(described), encoding="utf-8")
    with served(folder, Quiet) as address:
        yield address


@pytest.fixture(params=list(BROWSERS))
def visit(request: pytest.FixtureRequest) -> Iterator[tuple[Page, str]]:
    """A page in a browser of each kind, and what comes of WebGPU there."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSERS[request.param])
        try:
            yield browser.new_page(viewport={"width": 1440, "height": 900}), request.param
        finally:
            browser.close()


def test_webgpu_is_fetched_when_chosen_and_used_if_it_agrees(
    visit: tuple[Page, str], webgpu_site: str, small: Scope
) -> None:
    page, expected = visit
    strays, fetched = watched(page, webgpu_site), list[str]()
    page.on("request", lambda request: fetched.append(request.url) if f"/{FOLDER}/" in request.url else None)
    page.goto(webgpu_site + at(head="1.4", token=9, text=TEXT))
    if expected == "agrees" and not page.evaluate(ADAPTER):
        pytest.skip("this Chromium has no software adapter for WebGPU")
    said = page.locator("[data-runtime]")
    expect(said).to_contain_text("untested on this kind of device")
    expect(page.locator(".inspector .number")).not_to_have_count(0)
    assert fetched == []
    page.get_by_label("WebGPU").click()
    expect(said).to_have_attribute("data-runtime", expected)
    expect(said).to_contain_text(
        "the largest difference of a probability is" if expected == "agrees" else "found no graphics card. The model"
    )
    assert len(fetched) == (2 if expected == "agrees" else 0)
    expect(page.get_by_label("WebGPU")).to_be_checked()
    expect(page.locator(".inspector .number")).not_to_have_count(0)
    shown = float(page.locator(".inspector .number").first.inner_text())
    assert shown == pytest.approx(float(small.look(TEXT).pattern("1.4")[9].max()), abs=1e-3)
    assert strays == []
