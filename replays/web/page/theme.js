// Light or dark theme: the setting of the system, unless the user chooses another.

import { recall, remember } from "./storage.js";

const KEY = "arena-theme";
const CHOICES = ["auto", "light", "dark"];

export function prepareTheme(button) {
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
