"""Home page of a folder: evaluations, tournaments, training runs, reports, comparisons."""
