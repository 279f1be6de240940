"""A person who plays in a browser by clicks only, or by keys only: pieces, buttons and steppers."""

from __future__ import annotations

import random
from collections.abc import Callable
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
    const piece = each.classList.contains('picked') ? 'picked' : 'piece';
    return [each.dataset.choice ?? piece, each.getAttribute('aria-label') ?? each.textContent];
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
            # The controls are gone or hidden if the last choice has ended the turn, or the game.
            if not found.count() or not found.first.is_visible():
                return  # Choose among what the page shows now.
        else:
            return
    raise AssertionError(f"a click on {found.first.inner_text()!r} changes nothing")


# The key that leads from what has the focus to a choice. The arrow keys go from piece to piece.
KEY = """([number, arrows]) => {
  const [from, to] = [document.activeElement, document.querySelector(`[data-number="${number}"]`)];
  // The controls are hidden when the turn is over.
  if (!to || (to.offsetParent === null && !to.ownerSVGElement)) return null;
  if (from === to) return 'Enter';
  if (arrows && [from, to].every((each) => each.closest('.table-top'))) {
    const [a, b] = [from, to].map((each) => each.getBoundingClientRect());
    const [x, y] = [b.x + b.width / 2 - a.x - a.width / 2, b.y + b.height / 2 - a.y - a.height / 2];
    if (Math.abs(x) > Math.abs(y)) return x > 0 ? 'ArrowRight' : 'ArrowLeft';
    return y > 0 ? 'ArrowDown' : 'ArrowUp';
  }
  return from.compareDocumentPosition(to) & Node.DOCUMENT_POSITION_PRECEDING ? 'Shift+Tab' : 'Tab';
}"""
FOCUSED = "document.activeElement?.dataset.number ?? null"
MOST_KEYS = 200
MOST_CHOICES = 400


def press(page: Page, number: int) -> None:
    """Go to the choice with this number by keys, press Enter, and wait for a change."""
    before, arrows, seen = page.evaluate(STATE), True, set[str]()
    for _ in range(MOST_KEYS):
        key = page.evaluate(KEY, [number, arrows])
        if key is None:
            return  # The page was drawn anew: choose among what it shows now.
        page.keyboard.press(key)
        if key == "Enter":
            page.wait_for_function(f"(before) => ({STATE})() !== before", arg=before)
            return
        focused = page.evaluate(FOCUSED)
        if focused is not None and key.startswith("Arrow"):
            arrows = focused not in seen  # In a circle: the Tab key reaches every piece.
            seen.add(focused)
    raise AssertionError(f"{MOST_KEYS} keys do not lead to choice {number}: {choices(page)}")


def play_to_the_end(
    page: Page,
    rng: random.Random,
    choose: Callable[[Page, int], None] = click,
) -> int:
    """Play at random; return the number of choices."""
    for made in range(MOST_CHOICES):
        page.wait_for_selector(f".is-turn, {OVER}")
        if page.locator(OVER).count():
            return made
        step(page, rng, choose)
    raise AssertionError(f"the game is not over after {MOST_CHOICES} choices")


def step(page: Page, rng: random.Random, choose: Callable[[Page, int], None] = click) -> None:
    """Choose something that leads on: a chosen action is confirmed, not cleared."""
    found = choices(page)
    # A click on what is chosen already changes nothing.
    idle = ("clear", "no", "picked")
    useful = [at for at, (kind, _) in enumerate(found) if not kind.startswith(idle)]
    if not useful:
        # The turn is over by now. If it is not, this waits in vain and fails.
        page.wait_for_selector(f".play:not(.is-turn), .table-top .pickable, {OVER}")
        return
    # A question whether the person is sure stands beside what it asks about.
    for last in ("yes", "ready"):
        leading = [at for at in useful if found[at][0] == last]
        if leading:
            useful = leading
            break
    choose(page, rng.choice(useful))
