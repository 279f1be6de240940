"""Training hosts: they hold the weights that are trained, and serve them."""
