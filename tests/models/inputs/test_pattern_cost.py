"""How far a regular expression may backtrack, read from its form."""

from __future__ import annotations

import pytest

from headscope.models.inputs.pattern_cost import NO_BOUND, backtracking_exponent


@pytest.mark.parametrize(
    ("pattern", "exponent"),
    [
        ("a{0,64}b", 0), ("a{0,65}b", 1), ("a{64}b", 0), ("a{65}b", 1), ("a{2,}b", 1), ("a{,3}b", 0), ("a+b?", 0),
        ("a+b?c", 1), ("a*b*c", 2), ("a*|b*c*d", 2), ("(?:a{2})+b", 1), ("(?:a{2,3})+b", NO_BOUND),
        ("(?:ab?)+", NO_BOUND), ("(?:a|b)+c", NO_BOUND), ("(?:a|b)?c", 0), ("(a+)?b", 1),
        ("(a+){1}b", 1), ("(a+){2}b", NO_BOUND),
        (r"\p{L}+\x{41}", 1), (r"\*+a", 1), (r"[\]]+a", 1), ("[[a]b]+c", 1), ("[^]]+a", 1), ("(?=a+)b", 1),
        ("(?i:a)+b", 1), ("(?<!a)b+", 0), ("a++b", 1), ("a+?b", 1), ("(?i)", 0), ("a)", NO_BOUND), ("+a", NO_BOUND),
    ],
)  # fmt: skip
def test_repetitions_that_can_be_sent_back_are_counted(pattern: str, exponent: int) -> None:
    assert backtracking_exponent(pattern) == exponent


@pytest.mark.parametrize(
    ("pattern", "exponent"),
    [
        ("a+b{,3}", 0), ("a+b{1,3}", 1), ("a+b*", 0), ("a+b*c", 2), ("(?:a*)b", 1), ("(?:a)(?:b+)c", 1),
        ("(?:a+b|c)d", 1), ("(?:a|bc?|d)?", 0), ("(?:a|b|c)+", NO_BOUND), ("(?:a?|b)+", NO_BOUND),
    ],
)  # fmt: skip
def test_what_may_be_left_out_sends_nothing_back(pattern: str, exponent: int) -> None:
    assert backtracking_exponent(pattern) == exponent


@pytest.mark.parametrize(
    ("pattern", "exponent"),
    [
        ("[^]a+]b", 0), ("[]a+]b", 0), ("[a+]b", 0), ("[a]b+c", 1), ("[^a]b+c", 1), (r"[a\]+b]c", 0), ("[[a]+b]c", 0),
        ("[[a+b]c", NO_BOUND), (r"\p{L+}a", 0), (r"\P{L+}a", 0), (r"\d{L+}a", 1), (r"\++a", 1),
    ],
)  # fmt: skip
def test_what_is_inside_a_class_or_an_escape_is_no_repetition(pattern: str, exponent: int) -> None:
    assert backtracking_exponent(pattern) == exponent


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1b", r"(a)\9b", r"(?<n>a)\k<n>", r"(a)\g<1>", "(?(1)a|b)", "(?~ab)", "(?#a)b", "(*FAIL)a", "(a",
        "((a)", "a)b", "[a", "[^", "?a", "a|*b", "(?:+a)", "\\",
    ],
)  # fmt: skip
def test_what_is_not_followed_has_no_bound(pattern: str) -> None:
    assert backtracking_exponent(pattern) == NO_BOUND
