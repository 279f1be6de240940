"""Looking at games, finished and running: viewers that read events and replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    catalog.add("viewer", "terminal", "replays.terminal:step_through", "in this terminal")
    catalog.add("viewer", "json", "replays.terminal:print_json", "a replay as one JSON object")
    catalog.add("viewer", "svg", "replays.terminal:save_svg", "a position as a picture")
    catalog.add("viewer", "web", "replays.web:serve", "a page on this machine, for a browser")
    catalog.add("viewer", "html", "replays.web:write_page", "a page in one file, works offline")
    catalog.add("viewer", "live", "replays.live:LiveView", "a running game, in this terminal")
    training = "replays.training_view:TrainingLive"
    catalog.add("viewer", "training", training, "a training run, in this terminal")
    catalog.add("sheet", "html", "replays.sheet:write_html", "a report with plots, one file")
    report = "replays.sheet.training:write_training_report"
    catalog.add("sheet", "training", report, "a training run with its curves, one file")
