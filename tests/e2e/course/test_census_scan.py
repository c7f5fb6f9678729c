"""The census of a fresh install, and the scan of a pasted text: progress, a stop, the result, its file."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from headscope.app.pages.census import LONGEST_TEXT
from headscope.scan.census import Census
from tests.e2e.conftest import fits

TEXT = "The old house stood by the river. Nobody lived in the old house, and the river passed the old house. " * 8
LONG = TEXT * (LONGEST_TEXT // len(TEXT))


def open_census(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(f"{address}#census")
    expect(page.locator("[data-example]").first).to_be_visible()
    return page


def paste(page: Page, text: str) -> None:
    page.get_by_text("Scan your own text").click()
    page.get_by_label("Text to scan").fill(text)
    page.get_by_role("button", name="Scan this text").click()


def test_lesson_10_leads_to_a_census_on_a_fresh_install(context: BrowserContext, address: str):
    page = context.new_page()
    page.goto(f"{address}#learn?lesson=10")
    page.get_by_role("link", name="Census: every head and every question").click()
    expect(page.get_by_role("heading", name="embedded on stories, a licence and code")).to_be_visible()
    expect(page.locator("[data-example]").first).to_be_visible()


def test_a_pasted_text_becomes_a_census_that_can_be_downloaded(context: BrowserContext, address: str, tmp_path: Path):
    page = open_census(context, address)
    paste(page, TEXT)
    expect(page.get_by_role("combobox", name="Census")).to_contain_text("The old house stood by the rive")
    expect(page).to_have_url(re.compile("census=2"))
    expect(page.locator("main")).to_contain_text("tokens in 1 document ·")
    fits(page, 390)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download these scan results").click()
    file = tmp_path / "mine.zip"
    download.value.save_as(file)
    assert Census.load(file).model_name == "embedded"


def test_a_scan_can_be_stopped_and_keeps_nothing(context: BrowserContext, address: str):
    page = open_census(context, address)
    paste(page, LONG)
    expect(page.locator("[data-scan]").get_by_role("status")).to_contain_text(re.compile(r"[\d,]+ of [\d,]+ tokens"))
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-scan]")).to_contain_text("Stopped. Nothing was saved.")
    expect(page.get_by_role("button", name="Scan this text")).to_be_enabled()
    expect(page.get_by_role("combobox", name="Census")).to_have_count(0)


def test_a_text_that_is_too_long_is_not_sent(context: BrowserContext, address: str):
    page = open_census(context, address)
    page.get_by_text("Scan your own text").click()
    page.get_by_label("Text to scan").fill("a" * (LONGEST_TEXT + 7))
    expect(page.locator("[data-scan]")).to_contain_text("7 characters too many")
    expect(page.get_by_role("button", name="Scan this text")).to_be_disabled()
