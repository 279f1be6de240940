"""Reports as text and Markdown."""
