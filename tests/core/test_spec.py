"""SPEC strings: parsing, lists, and passwords that are not shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.core.spec import Spec, redacted, split_specs, split_weighted_specs

URL = "http://user:pa,ss=w@host:8000/v1#model"
WORDS = st.from_regex(r"[a-z]{1,8}(:[a-z0-9./#-]{1,12})?", fullmatch=True)


@given(WORDS)
def test_a_spec_is_written_as_it_was_read(text: str) -> None:
    assert str(Spec.parse(text)) == text


def test_a_spec_splits_at_its_first_colon() -> None:
    assert Spec.parse("embedded:runs/a:b") == Spec("embedded", "runs/a:b")
    assert Spec.parse("human").is_human and not Spec.parse("bot:human").is_human


@given(st.lists(WORDS, max_size=5))
def test_a_list_of_specs(specs: list[str]) -> None:
    assert split_specs(", ".join(specs)) == specs


def test_a_comma_in_the_password_of_a_url_belongs_to_the_spec() -> None:
    assert split_specs(f"bot:novice,{URL}, bot:oracle,") == ["bot:novice", URL, "bot:oracle"]
    assert redacted(URL) == "http://host:8000/v1#model"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bot:novice=3,past", [("bot:novice", 3.0), ("past", 1.0)]),
        (f"{URL},self=0.5", [(URL, 1.0), ("self", 0.5)]),
        (f"{URL}=2", [(URL, 2.0)]),
    ],
)
def test_weights(text: str, expected: list[tuple[str, float]]) -> None:
    assert split_weighted_specs(text) == expected


@pytest.mark.parametrize("text", ["bot:a=0", "bot:a=-1", "bot:a=inf", "bot:a=nan", "=3"])
def test_a_weight_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        split_weighted_specs(text)
