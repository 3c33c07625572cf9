"""The additions to Airflow's UI: a tab `State` on each DAG's page, and a list of the queries."""

from importlib.metadata import entry_points
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from statemaint.airflow.listener import StatemaintListenerPlugin
from statemaint.airflow.names import PAGE_ROUTE

PREFIX = "/statemaint"
# If the API server is not at the root of its host, neither are the pages.
_PAGES = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX


class StatemaintPlugin(AirflowPlugin):
    """The pages of `statemaint.airflow.pages`, and their places in the UI."""

    name = "statemaint"
    external_views = [  # noqa: RUF012 -- as Airflow wants it
        {
            "name": "State",
            "destination": "dag",
            "url_route": "statemaint-state",
            "href": f"{_PAGES}/dags/{{DAG_ID}}",
        },
        {
            "name": "Streaming state",
            "destination": "nav",
            "category": "browse",
            "url_route": PAGE_ROUTE,
            "href": f"{_PAGES}/queries",
        },
    ]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """Returns the app, which is created on first use.

        Every Airflow process loads the plugins, down to each task. Only the API server reads this
        property, and only there is the import of its web framework worth a second.
        """
        from statemaint.airflow.pages.app import app  # noqa: PLC0415 -- see above

        return [{"app": app(), "url_prefix": PREFIX, "name": "statemaint"}]


def plugins_of_a_file() -> dict[str, type[AirflowPlugin]]:
    """Returns the plugins that a file in the plugins folder must provide, by name.

    There are none if the installed package has entry points for them, which Airflow finds on its
    own: it reports a second plugin of the same name as an error.
    """
    if entry_points(group="airflow.plugins", name=StatemaintPlugin.name):
        return {}
    return {plugin.__name__: plugin for plugin in (StatemaintPlugin, StatemaintListenerPlugin)}
