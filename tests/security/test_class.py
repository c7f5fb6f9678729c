"""A class over HTTP: joining with a code, what is the teacher's alone, and what students are told."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.course import lessons
from headscope.app.pages.course.classroom import Classroom
from headscope.app.server import clients
from headscope.app.server.application import application
from headscope.app.server.join import TRIES_AT_ONCE
from headscope.app.server.serve import ServeOptions, announcement
from headscope.app.server.token import AccessToken

TEACHERS = ("teacher", "progress.csv")


pytestmark = pytest.mark.promise("A class")


@pytest.fixture
def room() -> Classroom:
    return Classroom(lambda: lessons.contents().lessons)


@pytest.fixture
def app(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(clients, "NEW_AT_ONCE", 8.0)
    monkeypatch.setattr(clients, "NEW_PER_SECOND", 0.0)  # cookies come back with time: here they do not
    return application(ModelRegistry(), AccessToken(), held=room)


@pytest.fixture
def student(app: object, room: Classroom) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        client.get("/class", params={"code": room.code, "join": 1})
        yield client


@pytest.fixture
def teacher(app: object, room: Classroom) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        client.get("/class", params={"code": room.code, "join": 1})
        client.get("/class/teacher", params={"key": room.teacher})
        yield client


def test_without_the_code_there_is_only_the_form(app: object, room: Classroom) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        assert client.get("/").status_code == 401
        form = client.get("/class")
        assert "Type the code on the wall" in form.text
        assert "form-action 'self'" in form.headers["content-security-policy"]
        assert "script" not in form.headers["content-security-policy"]
        wrong = client.get("/class", params={"code": "<i>AAA</i>", "join": 1})
        assert (wrong.status_code, "<i>" in wrong.text) == (403, False)
        assert client.get("/api/class").status_code == 401
        assert client.get("/class", params={"code": room.code.lower(), "join": 1}).status_code == 200
        assert client.get("/api/class").status_code == 200


def test_the_teachers_address_opens_the_teachers_page() -> None:
    room, token = Classroom(lambda: lessons.contents().lessons), AccessToken()
    said = announcement(ServeOptions(classroom=True), 80, token, room)
    (teachers,) = re.findall(r"teacher's page is at http://127\.0\.0\.1:80(\S+)", said)
    (students,) = re.findall(r"at http://127\.0\.0\.1:80(\S+)\.\n", said)
    app = application(ModelRegistry(), token, held=room)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get(students).status_code == 200
        assert client.get("/api/class/teacher").status_code in (401, 403)
        assert client.get(teachers).status_code == 200
        assert client.get("/api/class/teacher").status_code == 200


def test_codes_cannot_be_tried_without_end(app: object) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        for _ in range(int(TRIES_AT_ONCE)):
            client.get("/class", params={"code": "AAA AAA", "join": 1})
        statuses = {client.get("/class", params={"code": "AAA AAA", "join": 1}).status_code for _ in range(40)}
    assert 429 in statuses


def test_who_types_wrong_codes_does_not_keep_others_out(app: object, room: Classroom) -> None:
    with (
        TestClient(app, base_url="http://127.0.0.1", client=("10.0.0.66", 1)) as guesser,  # type: ignore[arg-type]
        TestClient(app, base_url="http://127.0.0.1", client=("10.0.0.7", 1)) as other,  # type: ignore[arg-type]
    ):
        while guesser.get("/class", params={"code": "AAA AAA", "join": 1}).status_code != 429:
            pass
        assert other.get("/class", params={"code": room.code, "join": 1}).status_code == 200


def test_right_codes_are_not_limited(app: object, room: Classroom) -> None:
    """More students than wrong codes are allowed join behind one address."""
    with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as client:  # type: ignore[arg-type]
        joined = {
            client.get("/class", params={"code": room.code, "join": 1}).status_code
            for _ in range(2 * int(TRIES_AT_ONCE))
        }
    assert joined == {303}


def test_browser_that_drops_its_cookie_is_not_a_student(student: TestClient, teacher: TestClient, app: object) -> None:
    """The token's cookie alone, or in a header, answers as often as it likes and is never counted."""
    token = {"Authorization": f"Bearer {next(v for k, v in student.cookies.items() if 'client' not in k)}"}
    shown = {"lesson": student.get("/api/lessons").json()["lessons"][0]["number"]}
    with TestClient(app, base_url="http://127.0.0.1", headers=token) as dropping:  # type: ignore[arg-type]
        for _ in range(20):
            dropping.cookies.clear()
            assert dropping.get("/api/class").json() is None
            answered = dropping.post(f"/api/lessons/{shown['lesson']}/answer", json={"question": 1, "answer": "a"})
            assert (answered.status_code, "set-cookie" in answered.headers) == (200, False)
    assert student.get("/api/class").json()["here"] == 1
    assert teacher.get("/api/class/teacher", params=shown).json()["questions"][0]["answered"] == 0
    teacher.post("/api/class/answers", json={"hidden": True})
    with TestClient(app, base_url="http://127.0.0.1", headers=token) as asking:  # type: ignore[arg-type]
        hidden = asking.post(f"/api/lessons/{shown['lesson']}/answer", json={"question": 1, "answer": "a"})
    assert hidden.json()["kind"] == "withheld", "the reasons are hidden from those too"


def test_address_out_of_cookies_joins_no_more_and_the_teacher_sees_it(
    app: object, room: Classroom, teacher: TestClient
) -> None:
    def join(address: str) -> TestClient:
        client = TestClient(app, base_url="http://127.0.0.1", client=(address, 1))  # type: ignore[arg-type]
        client.get("/class", params={"code": room.code, "join": 1})
        return client

    students = [join("10.0.0.66") for _ in range(int(clients.NEW_AT_ONCE))]
    assert teacher.get("/api/class/teacher").json()["turned_away"] == 0
    late = join("10.0.0.66")
    assert late.get("/api/class").status_code == 401
    told = late.get("/class", params={"code": room.code, "join": 1})
    assert (told.status_code, "Tell your teacher" in told.text) == (503, True)
    assert teacher.get("/api/class/teacher").json()["turned_away"] == 2
    again = students[0].get("/class", params={"code": room.code, "join": 1})
    assert (again.status_code, students[0].get("/api/class").json() is None) == (200, False)
    assert join("10.0.0.7").get("/api/class").json() is not None


def test_two_classes_on_one_machine_keep_their_teachers_apart() -> None:
    """Browsers share cookies between the ports of a machine."""
    rooms = [Classroom(lambda: lessons.contents().lessons) for _ in range(2)]
    apps = [application(ModelRegistry(), AccessToken(), held=room) for room in rooms]
    given: list[tuple[str, str]] = []
    for room, app in zip(rooms, apps, strict=True):
        with TestClient(app, base_url="http://127.0.0.1", cookies=dict(given)) as client:
            client.get("/class", params={"code": room.code, "join": 1})
            client.get("/class/teacher", params={"key": room.teacher})
            given += client.cookies.items()
    for app in apps:
        with TestClient(app, base_url="http://127.0.0.1", cookies=dict(given)) as client:
            assert client.get("/api/class/teacher").status_code == 200


def test_after_a_restart_the_form_says_what_is_lost(student: TestClient) -> None:
    """Whoever was in the class of a server that was killed meets the form of the next one, not an error."""
    again = application(ModelRegistry(), AccessToken(), held=Classroom(lambda: lessons.contents().lessons))
    with TestClient(again, base_url="http://127.0.0.1", cookies=dict(student.cookies.items())) as client:
        page = client.get("/")
        assert (page.status_code, "started again" in page.text, "Type the code" in page.text) == (401, True, True)
    with TestClient(again, base_url="http://127.0.0.1") as client:
        assert "started again" not in client.get("/").text


@pytest.mark.parametrize("path", TEACHERS)
def test_students_cannot_read_what_is_the_teachers(path: str, student: TestClient, teacher: TestClient) -> None:
    assert student.get(f"/api/class/{path}").status_code == 403
    assert teacher.get(f"/api/class/{path}").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("open", {"lesson": 1, "open": True}),
        ("answers", {"hidden": True}),
        ("ask", {}),
        ("stop-showing", {}),
        ("end", {}),
    ],
)
def test_students_cannot_do_what_is_the_teachers(
    path: str, body: dict[str, object], student: TestClient, teacher: TestClient
) -> None:
    assert student.post(f"/api/class/{path}", json=body).status_code == 403
    assert teacher.post(f"/api/class/{path}", json=body).status_code == 200


def test_the_answer_key_is_the_teachers(student: TestClient, teacher: TestClient) -> None:
    blank = student.get("/api/worksheet", params={"seed": 7}).json()
    assert all(not task["answers"] for task in blank["tasks"])
    refused = student.get("/api/worksheet", params={"seed": 7, "solved": True})
    assert (refused.status_code, "teacher" in refused.json()["message"]) == (403, True)
    solved = teacher.get("/api/worksheet", params={"seed": 7, "solved": True}).json()
    assert all(task["answers"] for task in solved["tasks"])


def test_without_a_class_there_is_no_answer_key_and_no_class() -> None:
    with TestClient(application(ModelRegistry()), base_url="http://127.0.0.1") as client:
        assert client.get("/api/worksheet").status_code == 200
        assert "--classroom" in client.get("/api/worksheet", params={"solved": True}).json()["message"]
        assert client.get("/api/class").json() is None
        assert client.get("/api/class/teacher").status_code == 404


def test_students_see_open_lessons_only(student: TestClient, teacher: TestClient) -> None:
    listed = [lesson["number"] for lesson in student.get("/api/lessons").json()["lessons"]]
    everything = [lesson["number"] for lesson in teacher.get("/api/lessons").json()["lessons"]]
    assert listed == everything[:1]
    refused = student.get(f"/api/lessons/{everything[1]}")
    assert (refused.status_code, "not opened" in refused.json()["message"]) == (403, True)
    teacher.post("/api/class/open", json={"lesson": everything[1], "open": True})
    assert student.get(f"/api/lessons/{everything[1]}").status_code == 200


def test_first_answers_are_counted_and_withheld_while_hidden(student: TestClient, teacher: TestClient) -> None:
    number = student.get("/api/lessons").json()["lessons"][0]["number"]
    teacher.post("/api/class/answers", json={"hidden": True})
    answer = {"question": 1, "answer": "a"}
    assert student.post(f"/api/lessons/{number}/answer", json=answer).json()["kind"] == "withheld"
    teacher.post("/api/class/answers", json={"hidden": False})
    assert student.post(f"/api/lessons/{number}/answer", json=answer).json()["kind"] != "withheld"
    seen = teacher.get("/api/class/teacher", params={"lesson": number}).json()
    assert seen["questions"][0]["answered"] == 1
    assert teacher.get("/api/class/progress.csv").text.splitlines()[1] == f"1,{number},1,a"


def test_a_page_is_shown_with_consent(student: TestClient, teacher: TestClient) -> None:
    assert student.post("/api/class/show", json={"address": "#film"}).status_code == 422
    teacher.post("/api/class/ask", json={})
    assert student.get("/api/class").json()["asked_to_show"]
    assert student.post("/api/class/show", json={"address": "javascript:alert(1)"}).status_code == 422
    assert student.post("/api/class/show", json={"address": "#film"}).status_code == 200
    assert teacher.get("/api/class/teacher").json()["shown"] == "#film"


def test_the_teachers_cookie_is_kept_from_scripts_and_from_other_sites(app: object, room: Classroom) -> None:
    with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as client:  # type: ignore[arg-type]
        joined = client.get("/class", params={"code": room.code, "join": 1})
        assert (joined.status_code, joined.headers["location"]) == (303, "/#joined")
        assert client.get("/class/teacher", params={"key": "wrong"}).status_code == 403
        arrived = client.get("/class/teacher", params={"key": room.teacher})
        assert (arrived.status_code, arrived.headers["location"]) == (303, "/#class")
        assert {"HttpOnly", "SameSite=strict"} <= set(arrived.headers["set-cookie"].split("; "))


@pytest.mark.parametrize(("method", "path"), [("POST", "/class"), ("HEAD", "/class"), ("GET", "/class/")])
def test_nothing_but_the_form_is_answered_without_the_token(
    app: object, room: Classroom, method: str, path: str
) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        assert client.request(method, path, params={"code": room.code, "join": 1}).status_code == 401


def test_only_students_are_told_the_news_of_the_class(student: TestClient, teacher: TestClient) -> None:
    assert student.get("/api/class").json() is not None
    assert teacher.get("/api/class").json() is None


def test_the_teacher_sees_the_questions_of_a_lesson_that_there_is(teacher: TestClient) -> None:
    def questions(**asked: int) -> list[object]:
        return list(teacher.get("/api/class/teacher", params=asked).json()["questions"])

    first = teacher.get("/api/lessons").json()["lessons"][0]
    assert len(questions(lesson=first["number"])) == first["questions"]
    assert questions(lesson=99) == questions() == []


def test_a_worksheet_is_blank_and_the_first_one_unless_asked(student: TestClient) -> None:
    assert student.get("/api/worksheet").json() == student.get("/api/worksheet", params={"seed": 0}).json()
    assert student.get("/api/worksheet").json() != student.get("/api/worksheet", params={"seed": 1}).json()


def test_a_class_on_two_networks_is_one_class() -> None:
    room = Classroom(lambda: lessons.contents().lessons, hosts=lambda: ["192.168.1.20", "10.8.0.3"])
    app = application(ModelRegistry(), AccessToken(), held=room)

    def browser(host: str, address: str) -> TestClient:
        client = TestClient(app, base_url=f"http://{host}:8765", client=(address, 1))
        client.headers["origin"] = f"http://{host}:8765"
        client.get("/class", params={"code": room.code, "join": 1})
        return client

    teacher = browser("192.168.1.20", "192.168.1.9")
    teacher.get("/class/teacher", params={"key": room.teacher})
    for student in (browser("192.168.1.20", "192.168.1.7"), browser("10.8.0.3", "10.8.0.44")):
        assert student.post("/api/lessons/0/answer", json={"question": 1, "answer": "a"}).status_code == 200
    seen = teacher.get("/api/class/teacher", params={"lesson": 0}).json()
    assert seen["questions"][0]["answered"] == 2
    assert seen["join"][:2] == ["192.168.1.20:8765/class", "10.8.0.3:8765/class"]
