"""The results of a run: outcomes, reports, and their JSON. Pure. Printed tables belong in `cli`."""
