// The top of each page: the link to the content, and the choice of the theme, which is that of the
// system unless the user chooses another.

import { recall, remember } from "./storage.js";

const KEY = "arena-theme";
const CHOICES = ["auto", "light", "dark"];

export function prepareTopBar() {
  // Not by the fragment of the address, which says what is shown.
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  prepareTheme(document.getElementById("theme"));
}

function prepareTheme(button) {
  let choice = CHOICES.includes(recall(KEY)) ? recall(KEY) : "auto";
  const show = () => {
    document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    remember(KEY, choice);
    show();
  });
  show();
}
