"""Names of players for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.agents.names import display_names, person_spec
from arena.core.errors import UsageError
from arena.core.spec import Spec


def test_names_of_players() -> None:
    specs = ["human:Anna", "human", "bot:shared_table", "openai/gpt-5+notes"]
    assert display_names(specs)[:3] == ["Anna", "Player 2", "Shared table"]
    models = ["litellm:openai/gpt-5+notes", "http://user:key@host/v1#small", "agent:./player.py"]
    assert display_names(models) == ["gpt-5", "small", "player.py"]
    repeated = ["bot:novice", "human:Anna", "bot:novice"]
    assert display_names(repeated) == ["Novice 1", "Anna", "Novice 2"]


@pytest.mark.parametrize("name", ["Player 3", "seat 1", "A" * 25, "a+none", "<b>", "a:b", "-x"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="^name: "):
        person_spec(name)


@given(st.text(max_size=30))
def test_a_name_comes_back_from_its_spec(name: str) -> None:
    try:
        spec = person_spec(name)
    except UsageError:
        return
    parsed = Spec.parse(spec)
    assert parsed.is_human and parsed.scaffold is None and str(parsed) == spec
    assert display_names([spec])[0].isprintable()
