"""Writes the dashboards into the chart: `python -m helm.dashboards`."""

from helm.dashboards import files

for path, text in files().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
