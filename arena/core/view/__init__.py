"""Tables as people see them: typed pieces, and the panels that every surface draws."""
