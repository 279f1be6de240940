"""Names of players for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.agents.names import display_names, person_spec
from arena.core.errors import UsageError
from arena.core.spec import Spec
from arena.core.text import appearance


def test_names_of_players() -> None:
    specs = ["human:Anna", "human", "bot:shared_table", "openai/gpt-5+notes"]
    assert display_names(specs)[:3] == ["Anna", "Player 2", "Shared table"]
    models = ["litellm:openai/gpt-5+notes", "http://user:key@host/v1#small", "agent:./player.py"]
    models.append("embedded:runs/train/demo/checkpoints/0008")
    assert display_names(models) == ["gpt-5", "small", "player.py", "demo 8"]
    repeated = ["bot:novice", "human:Anna", "bot:novice"]
    assert display_names(repeated) == ["Novice 1", "Anna", "Novice 2"]


@pytest.mark.parametrize("name", ["Player 3", "seat 1", "A" * 25, "a+none", "<b>", "a:b", "-x"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="^name: "):
        person_spec(name)


def test_names_of_a_table_never_look_alike() -> None:
    """Letters of other alphabets, other forms of letters, accents, and names that are numbered."""
    alike = ["Anna", "\u0410nn\u0430", "Ann\u00e0", "\uff21nna", "An\u200bna", "ANNA"]
    names = display_names([f"human:{name}" for name in alike])
    assert names == ["Anna 1", "\u0410nn\u0430 2", "Ann\u00e0 3", "Anna 4", "Anna 5", "ANNA 6"]
    taken = ["human:Anna", "bot:anna", "human:Anna 1", "human:Anna l", "human", "bot:player_5"]
    shown = display_names(taken)
    assert len(set(map(appearance, shown))) == len(taken)
    assert display_names(["http://host/v1#\u202eevil\u202c", "human"]) == ["evil", "Player 2"]
    for name in ("P\u04cfayer 2", "Player l", "\u0420layer \uff13"):
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
    assert display_names([spec])[0].isprintable() and person_spec(parsed.rest) == spec
