"""Parts of `arena bench`."""
