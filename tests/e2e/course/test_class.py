"""A class in real browsers: join with the code, answer, be counted, show a page only with consent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.course import lessons
from headscope.app.pages.course.classroom import FEWEST_SHOWN, Classroom, OpenLesson
from headscope.app.pages.microscope import Session
from headscope.app.server import application
from headscope.app.server.addresses import hosts_on_network
from headscope.app.server.token import AccessToken
from tests.e2e.conftest import PATIENCE, fits, running, serious_violations

Arrive = Callable[[str], Page]


@pytest.fixture
def room() -> Classroom:
    return Classroom(lambda: lessons.contents().lessons)


@pytest.fixture
def arrive(room: Classroom, session: Session, browser: Browser) -> Iterator[Arrive]:
    """Open a path of the class's server in a browser of one's own."""
    with running(application(ModelRegistry(session), AccessToken(), held=room)) as address, ExitStack() as left:

        def come(path: str) -> Page:
            context = browser.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
            context.set_default_timeout(PATIENCE)
            left.callback(context.close)
            page = context.new_page()
            page.goto(address + path)
            return page

        yield come


def joined(arrive: Arrive, room: Classroom) -> Page:
    page = arrive("class")
    page.get_by_label("Type the code on the wall.").fill(room.code.lower())
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("heading", name="You are in.")).to_be_visible()
    page.get_by_role("link", name="Go to the lesson").click()
    expect(page.get_by_role("complementary", name="Class")).to_be_visible()
    return page


def teachers(arrive: Arrive, room: Classroom) -> Page:
    joined(arrive, room)  # the token's cookie comes with the code; the terminal's address has both
    page = arrive(f"class?code={room.code}&join=1")
    page.goto(page.url.split("#")[0] + f"class/teacher?key={room.teacher}")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("[data-code]")).to_have_text(room.code)
    return page


def test_a_wrong_code_is_told_and_lets_no_one_in(arrive: Arrive) -> None:
    page = arrive("class")
    page.get_by_label("Type the code on the wall.").fill("AAAA 22")
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no class with the code AAAA 22.")
    expect(page.get_by_label("Type the code on the wall.")).to_have_value("AAAA22")


def test_answers_are_counted_on_the_teachers_page(arrive: Arrive, room: Classroom) -> None:
    teacher, student = teachers(arrive, room), joined(arrive, room)
    lesson = lessons.contents().lessons[0]
    first = lesson.number
    student.goto(student.url.split("#")[0] + f"#learn?v=1&lesson={first}")
    student.locator("[data-question='1'] button").first.click()
    expect(student.get_by_role("img", name=f"1 of {lesson.questions} questions answered")).to_be_visible()
    expect(teacher.get_by_text("1 of ", exact=False).first).to_be_visible()
    for index in range(FEWEST_SHOWN):
        marked = lessons.mark(first, lessons.AnswerRequest(question=1, answer="b"))
        room.answered(f"another {index}", first, 1, marked)
    expect(teacher.locator("[data-option='1'] .count").first).to_have_text(str(FEWEST_SHOWN))
    expect(teacher.locator(".option.right")).to_have_count(1)
    teacher.keyboard.press("r")
    expect(teacher.locator(".option.right")).to_have_count(0)
    student.locator("[data-question='2'] input").fill(".5")
    student.get_by_role("button", name="Answer", exact=True).click()
    expect(student.locator("[data-question='2']").get_by_role("status")).to_contain_text("Your answer is saved.")
    fits(teacher, 390)


def test_open_pages_say_what_a_restarted_server_has_lost(session: Session, browser: Browser) -> None:
    rooms = [Classroom(lambda: lessons.contents().lessons) for _ in range(2)]
    apps = [application(ModelRegistry(session), AccessToken(), held=room) for room in rooms]
    with browser.new_context() as one, browser.new_context() as other:
        joined, student, teacher = one.new_page(), one.new_page(), other.new_page()
        with running(apps[0]) as address:
            for page in (joined, student, teacher):
                page.goto(f"{address}class?code={rooms[0].code}&join=1")
                expect(page.get_by_role("heading", name="You are in.")).to_be_visible(timeout=PATIENCE)
            student.get_by_role("link", name="Go to the lesson").click()
            expect(student.get_by_role("complementary", name="Class")).to_be_visible(timeout=PATIENCE)
            teacher.goto(f"{address}class/teacher?key={rooms[0].teacher}")
            expect(teacher.locator("[data-code]")).to_have_text(rooms[0].code, timeout=PATIENCE)
        with running(apps[1], port=int(address.rstrip("/").rpartition(":")[2])):
            expect(teacher.get_by_text("The server was started again.")).to_be_visible(timeout=PATIENCE)
            expect(student.get_by_text("Your answers from before no longer count there.")).to_be_visible(
                timeout=PATIENCE
            )
            for page in (joined, student):
                page.get_by_role("link", name="Join again").click()
                expect(page.get_by_label("Type the code on the wall.")).to_be_visible(timeout=PATIENCE)


def test_a_phone_opens_what_stands_on_the_board(session: Session, browser: Browser) -> None:
    """The server listens on every address; the board shows one of the network, as text and as a QR code."""
    hosts = hosts_on_network("0.0.0.0")
    if not hosts:
        pytest.skip("this machine is on no network")
    room = Classroom(lambda: lessons.contents().lessons, hosts=lambda: hosts)
    app = application(ModelRegistry(session), AccessToken(), held=room)
    with running(app, host="0.0.0.0") as address, ExitStack() as left:
        teacher, phone = (browser.new_context(viewport={"width": 390, "height": 844}) for _ in range(2))
        left.callback(teacher.close)
        left.callback(phone.close)
        board = teacher.new_page()
        board.goto(f"{address}class?code={room.code}&join=1")
        board.goto(f"{address}class/teacher?key={room.teacher}")
        shown = board.locator("[data-join]").inner_text()
        assert shown.partition(":")[0] == hosts[0]
        assert not shown.startswith("127.")
        coded = board.locator("[data-qr]").get_attribute("data-qr")
        assert coded == f"http://{shown}?code={room.code.replace(' ', '')}"
        page = phone.new_page()
        page.goto(coded)
        expect(page.get_by_label("Type the code on the wall.")).to_have_value(room.code.replace(" ", ""))
        page.get_by_role("button", name="Join").click()
        expect(page.get_by_role("heading", name="You are in.")).to_be_visible()
        expect(board.locator("[data-here]")).to_have_text("1")


def test_a_small_class_shows_its_ideas_only_when_the_teacher_asks(arrive: Arrive, room: Classroom) -> None:
    teacher = teachers(arrive, room)
    marked = lessons.mark(0, lessons.AnswerRequest(question=1, answer="a"))
    room.answered("someone", 0, 1, marked)
    expect(teacher.locator(".option")).to_have_count(2)
    expect(teacher.get_by_text("the idea behind it")).to_have_count(0)
    teacher.get_by_role("button", name="Show which answers were chosen").click()
    expect(teacher.locator(".option")).to_have_count(3)
    expect(teacher.locator("[data-option='0'] .count")).to_have_text("1")
    expect(teacher.get_by_text("the idea behind it").first).to_be_visible()
    assert serious_violations(teacher) == []
    for width in (390, 1024, 1440, 1920):
        fits(teacher, width)


def test_the_bar_follows_the_lesson_that_a_student_is_in(arrive: Arrive, room: Classroom) -> None:
    room.open(OpenLesson(lesson=1, open=True))
    student = joined(arrive, room)
    bar, listed = student.get_by_role("complementary", name="Class"), lessons.contents().lessons
    expect(bar).to_contain_text(listed[1].title)
    student.goto(student.url.split("#")[0] + "#learn?v=1&lesson=0")
    expect(bar).to_contain_text(listed[0].title)
    bar.get_by_role("button", name="Leave").click()
    expect(bar).to_contain_text("You have left the class.")
    bar.get_by_role("button", name="Come back").click()
    expect(bar).to_contain_text(listed[0].title)


def test_an_opened_lesson_is_announced_and_no_one_is_moved(arrive: Arrive, room: Classroom) -> None:
    teacher, student = teachers(arrive, room), joined(arrive, room)
    student.wait_for_url("**/#learn*")
    before = student.url
    teacher.get_by_role("button", name="Open", exact=True).first.click()
    expect(student.get_by_text("The next lesson is open", exact=False)).to_be_visible()
    assert student.url == before
    student.get_by_role("button", name="Go", exact=True).click()
    expect(student.get_by_role("heading", level=1)).to_have_text(lessons.contents().lessons[1].title)


def test_the_bar_stays_in_sight_and_a_lesson_begins_at_its_top(arrive: Arrive, room: Classroom) -> None:
    teacher, student = teachers(arrive, room), joined(arrive, room)
    student.goto(student.url.split("#")[0] + "#learn?v=1&lesson=0")
    expect(student.locator("[data-question='1']")).to_be_visible()
    student.locator("article > footer").scroll_into_view_if_needed()
    bar = student.get_by_role("complementary", name="Class")
    expect(bar).to_be_in_viewport()
    teacher.get_by_role("button", name="Open", exact=True).first.click()
    expect(student.get_by_role("button", name="Go", exact=True)).to_be_in_viewport()
    student.get_by_role("button", name="Go", exact=True).click()
    title = student.get_by_role("heading", level=1)
    expect(title).to_have_text(lessons.contents().lessons[1].title)
    expect(title).to_be_in_viewport()
    expect(student.get_by_role("navigation", name="Lessons").get_by_role("listitem")).to_have_count(2)


def test_a_page_is_shown_only_after_its_student_agreed(arrive: Arrive, room: Classroom) -> None:
    teacher, one, two = teachers(arrive, room), joined(arrive, room), joined(arrive, room)
    teacher.get_by_role("button", name="Ask for a volunteer").click()
    one.get_by_role("button", name="No, thank you").click()
    assert room.shown is None
    two.get_by_role("button", name="Show it").click()
    expect(one.get_by_role("link", name="Look at it")).to_be_visible()
    expect(teacher.get_by_text("A student's page is shown.", exact=False)).to_be_visible()


def test_a_student_reads_of_the_whole_course_and_goes_to_open_lessons_only(arrive: Arrive, room: Classroom) -> None:
    listed = lessons.contents()
    room.open(OpenLesson(lesson=listed.lessons[2].number, open=True))
    student = joined(arrive, room)
    student.goto(student.url.split("#")[0] + "#learn?v=1&lesson=0")
    expect(student.get_by_text(f"Lesson 0 of {listed.last}")).to_be_visible()
    expect(student.get_by_role("navigation", name="Lessons").get_by_role("listitem")).to_have_count(2)
    student.get_by_role("button", name="Next →").click()
    expect(student.get_by_role("heading", level=1)).to_have_text(listed.lessons[2].title)
    expect(student.get_by_role("button", name="Next →")).to_have_count(0)


def test_a_closed_lesson_says_so_and_opens_once_the_teacher_has_opened_it(arrive: Arrive, room: Classroom) -> None:
    says = "Your teacher has not opened lesson 3 yet."
    student = joined(arrive, room)
    student.goto(student.url.split("#")[0] + "#learn?v=1&lesson=3")
    expect(student.get_by_text(says)).to_be_visible()
    expect(student.get_by_role("heading", level=1)).to_have_count(0)
    room.open(OpenLesson(lesson=3, open=True))
    student.get_by_role("button", name="Try again").click()
    title = next(line.title for line in lessons.contents().lessons if line.number == 3)
    expect(student.get_by_role("heading", level=1)).to_have_text(title.replace("_", ""))
    expect(student.get_by_text(says)).to_have_count(0)
