"""The class page: counts without names, open lessons, and a page shown only with consent."""

from __future__ import annotations

import pytest

from headscope.app.pages.course.classroom import (
    HERE_SECONDS,
    ClassNews,
    Classroom,
    HideAnswers,
    LeaveClass,
    OpenLesson,
    ShowPage,
)
from headscope.app.pages.course.lessons import LessonSummary
from headscope.errors import InputError
from headscope.lab.teach.course.questions import Marked
from headscope.lab.teach.lessons import Lesson, lesson


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def room(clock: Clock) -> Classroom:
    return Classroom(lambda: [LessonSummary(number=n, name="x", title=str(n), questions=2) for n in (1, 2, 3)], clock)


@pytest.fixture(scope="module")
def shown() -> Lesson:
    return lesson(1)


def told(room: Classroom, student: str, lesson: int = -1) -> ClassNews:
    news = room.news(student, lesson)
    assert news is not None
    return news


def chose(option: int | None) -> Marked:
    return Marked(False, "no", option=option)


def students(count: int) -> list[str]:
    return [f"student {k}" for k in range(count)]


def test_students_are_counted_while_they_ask_for_news(room: Classroom, clock: Clock) -> None:
    for student in students(3):
        room.news(student)
    assert told(room, "student 0").here == 3
    clock.now = HERE_SECONDS + 1
    assert told(room, "student 0").here == 1


def test_only_first_answers_count(room: Classroom, shown: Lesson) -> None:
    for student in students(9):
        room.answered(student, 1, 2, chose(0))
        room.answered(student, 1, 2, chose(1))
    asked = room.view(shown, ["here/class"]).questions[1]
    assert asked.answered == 9
    assert [option.count for option in asked.options][:2] == [9, 0]


def test_an_answer_that_is_not_an_option_is_counted_as_other(room: Classroom, shown: Lesson) -> None:
    at = next(k for k, question in enumerate(shown.questions, start=1) if question.numeric)
    for student in students(8):
        room.answered(student, 1, at, chose(None))
    last = room.view(shown, ["here/class"]).questions[at - 1].options[-1]
    assert (last.text, last.count) == ("other", 8)


def test_a_small_class_is_counted_as_right_and_wrong_only(room: Classroom, shown: Lesson) -> None:
    right = next(k for k, option in enumerate(shown.questions[0].options) if option.right)
    for student in students(7):
        room.answered(student, 1, 1, chose(right if student == "student 0" else 1 - right))
    counts = {option.text: option.count for option in room.view(shown, ["here/class"]).questions[0].options}
    assert counts == {"right": 1, "wrong": 6}
    room.hide_answers(HideAnswers(hidden=True))
    assert room.view(shown, ["here/class"]).questions[0].options == []


def test_a_teacher_may_ask_which_option_a_small_class_chose(room: Classroom, shown: Lesson) -> None:
    for student in students(3):
        room.answered(student, 1, 1, chose(1))
    options = room.view(shown, [], few=True).questions[0].options
    assert [option.count for option in options][:2] == [0, 3]
    assert all(option.says for option in options[:2])


def test_news_are_about_the_lesson_that_a_student_is_in(room: Classroom) -> None:
    room.open(OpenLesson(lesson=3, open=True))
    room.answered("student 0", 1, 1, chose(0))
    news = told(room, "student 0", 1)
    assert (news.lesson, news.answered, news.newest, news.newest_title) == (1, 1, 3, "3")
    assert told(room, "student 0", 2).lesson == 3, "lesson 2 is closed"
    assert (told(room, "student 0").lesson, told(room, "student 0").answered) == (3, 0)


def test_answers_of_a_student_who_left_no_longer_count(room: Classroom, shown: Lesson) -> None:
    for student in students(2):
        room.answered(student, 1, 1, chose(0))
    room.leave("student 0", LeaveClass(left=True))
    room.answered("student 0", 1, 2, chose(0))
    assert room.news("student 0") is None
    assert [asked.answered for asked in room.view(shown, []).questions[:2]] == [1, 0]
    room.leave("student 0", LeaveClass(left=False))
    news = told(room, "student 0")
    assert (news.here, news.answered) == (2, 0)


def test_the_code_of_a_class_that_has_ended_is_known_as_such(room: Classroom) -> None:
    code = room.code
    assert (room.matches(code.lower()), room.matches(code, ended=True)) == (True, False)
    room.end()
    assert (room.matches(code), room.matches(code, ended=True)) == (False, True)


def test_hidden_answers_tell_neither_right_nor_why(room: Classroom, shown: Lesson) -> None:
    for student in students(8):
        room.answered(student, 1, 1, chose(0))
    room.hide_answers(HideAnswers(hidden=True))
    options = room.view(shown, ["here/class"]).questions[0].options
    assert all(option.right is None and option.says is None for option in options)
    assert told(room, "student 0").answers_hidden
    room.hide_answers(HideAnswers(hidden=False))
    assert any(option.right for option in room.view(shown, ["here/class"]).questions[0].options)


def test_lessons_open_and_close_but_one_stays_open(room: Classroom) -> None:
    room.open(OpenLesson(lesson=3, open=True))
    news = told(room, "student 0")
    assert (news.open, news.newest) == ([1, 3], 3)
    room.open(OpenLesson(lesson=1, open=False))
    with pytest.raises(InputError, match="lesson 3 is the only open one"):
        room.open(OpenLesson(lesson=3, open=False))
    with pytest.raises(InputError, match="there is no lesson 9; there are 1 to 3"):
        room.open(OpenLesson(lesson=9, open=True))


def test_a_page_is_shown_after_asking_and_only_the_first(room: Classroom) -> None:
    with pytest.raises(InputError, match="no one is asked"):
        room.show(ShowPage(address="#learn?lesson=2"))
    room.ask_to_show()
    assert told(room, "student 0").asked_to_show
    room.show(ShowPage(address="#learn?lesson=2"))
    with pytest.raises(InputError, match="another page is already shown"):
        room.show(ShowPage(address="#learn?lesson=3"))
    news = told(room, "student 1")
    assert (news.shown, news.asked_to_show) == ("#learn?lesson=2", False)
    room.stop_showing()
    assert told(room, "student 1").shown is None


def test_progress_is_csv_without_names(room: Classroom) -> None:
    room.answered("secret cookie", 1, 2, chose(1))
    room.answered("secret cookie", 1, 1, chose(None))
    assert room.progress() == "student,lesson,question,first answer\n1,1,1,other\n1,1,2,b\n"


def test_the_end_forgets_everything(room: Classroom, shown: Lesson) -> None:
    room.answered("student 0", 1, 1, chose(0))
    room.open(OpenLesson(lesson=2, open=True))
    room.ask_to_show()
    room.hide_answers(HideAnswers(hidden=True))
    room.end()
    assert room.progress().count("\n") == 1
    view = room.view(shown, ["here/class"])
    assert (view.here, view.asking, [one.open for one in view.lessons]) == (0, False, [True, False, False])
    assert not view.answers_hidden, "the next class is told whether its answers are right"
