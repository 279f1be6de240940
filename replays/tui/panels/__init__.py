"""What the terminal viewer shows beside the table: a panel is a function of a `View`."""
