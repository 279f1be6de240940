// Light or dark theme: the setting of the system, unless the user chooses another.

const CHOICES = ["auto", "light", "dark"];

export function prepareTheme(button) {
  let choice = CHOICES.includes(stored()) ? stored() : "auto";
  const show = () => {
    document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    store(choice);
    show();
  });
  show();
}

// A page that was opened from disk may have no storage.
function stored() {
  try {
    return localStorage.getItem("arena-theme");
  } catch {
    return null;
  }
}

function store(choice) {
  try {
    localStorage.setItem("arena-theme", choice);
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
}
