"""`arena atropos`: exchange of training games with trainers over the trajectory API."""
