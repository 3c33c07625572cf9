"""Writes the dashboards into the chart: `python -m helm.dashboards`."""

from helm.dashboards import files


def main() -> None:
    """Writes each dashboard."""
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
