// Light or dark: as the system has it, until somebody chooses.

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

// A page that was opened from a disk may have no store.
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
    // Then it lasts as long as the page.
  }
}
