"""A person who plays in a browser by clicks only: on pieces of the table, buttons and steppers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# What can be clicked now: pieces, then buttons of the actions that are not navigation.
CLICKABLE = """() => {
  const seen = (each) => each.offsetParent !== null || each.ownerSVGElement;
  document.querySelectorAll('[data-number]').forEach((each) => delete each.dataset.number);
  const found = [...document.querySelectorAll(
    '.table-top .pickable, .action-form button[data-choice]:not([disabled])')];
  return found.filter(seen).map((each, at) => {
    each.dataset.number = at;
    return [each.dataset.choice ?? 'piece', each.getAttribute('aria-label') ?? each.textContent];
  });
}"""
STATE = """() => [
  document.querySelectorAll('.play-event').length,
  document.querySelector('.is-turn') !== null,
  document.querySelector('.play-result:not([hidden])') !== null,
  document.querySelectorAll('.action-form button').length,
  document.querySelector('.action-form')?.textContent,
  [...document.querySelectorAll('.picked, .chosen')].map((each) => each.textContent).join(),
].join('|')"""
OVER = ".play-result:not([hidden])"


def choices(page: Page) -> list[tuple[str, str]]:
    """Return what can be clicked: the kind of choice, and its words."""
    return [(kind, words) for kind, words in page.evaluate(CLICKABLE)]


def click(page: Page, number: int) -> None:
    """Click the choice with this number, and wait until the page has changed.

    A page that is drawn anew between press and release loses the click, which a person repeats.
    """
    from playwright.sync_api import TimeoutError as NotClicked

    before = page.evaluate(STATE)
    found = page.locator(f"[data-number='{number}']")
    for timeout in (5_000, 20_000):
        try:
            found.first.click(timeout=timeout)
            page.wait_for_function(
                f"(before) => ({STATE})() !== before", arg=before, timeout=timeout
            )
        except NotClicked:
            if not found.count():
                return  # Choose among what the page shows now.
        else:
            return
    raise AssertionError(f"a click on {found.first.inner_text()!r} changes nothing")


def play_by_clicks(page: Page, rng: random.Random, most: int = 400) -> int:
    """Play to the end by random clicks; return the number of clicks."""
    for clicks in range(most):
        page.wait_for_selector(f".is-turn, {OVER}")
        if page.locator(OVER).count():
            return clicks
        step(page, rng)
    raise AssertionError(f"the game is not over after {most} clicks")


def step(page: Page, rng: random.Random) -> None:
    """Click something that leads on: a chosen action is played and confirmed, not cleared."""
    found = choices(page)
    useful = [at for at, (kind, _) in enumerate(found) if not kind.startswith(("clear", "no"))]
    assert useful, "it is the person's turn, but there is nothing to click"
    # With pieces picked, the action that they make up. A question whether the person is sure stands
    # beside what it asks about.
    picked = any(kind.startswith("clear") for kind, _ in found)
    for last in ("yes", "ready", *(("play ",) if picked else ())):
        leading = [at for at in useful if found[at][0].startswith(last)]
        if leading:
            useful = leading
            break
    click(page, rng.choice(useful))
