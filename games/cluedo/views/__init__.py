"""Pictures of the table for the terminal and the browser."""
