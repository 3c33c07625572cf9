"""The description of this package for Airflow, which reads it through an entry point."""

from typing import Any

_NAME = "statemaint"
_MODULES = "statemaint.airflow"


def get_provider_info() -> dict[str, Any]:
    """Returns the description of the package; its plugins have entry points of their own."""
    return {
        "package-name": "statemaint",
        "name": _NAME,
        "description": "Maintains the state of Spark Structured Streaming queries.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://spark.apache.org/docs/latest/streaming/",
                "tags": ["software"],
            }
        ],
        "operators": [_modules("operators", "task_group", "maintenance_dag")],
        "sensors": [_modules("sensors")],
        "hooks": [_modules("hooks")],
        "triggers": [_modules("triggers")],
        "connection-types": [_connection()],
        "notifications": [f"{_MODULES}.notifications.StateReportNotifier"],
        "extra-links": [f"{_MODULES}.links.StateLink", f"{_MODULES}.links.DashboardLink"],
        "config": {"statemaint": _config()},
    }


def _modules(*names: str) -> dict[str, Any]:
    modules = [f"{_MODULES}.{name}" for name in names]
    return {"integration-name": _NAME, "python-modules": modules}


def _connection() -> dict[str, Any]:
    """Returns the form of a connection for S3; Airflow shows it without importing the hook."""
    schema: dict[str, Any] = {"type": ["string", "null"]}
    fields: dict[str, tuple[str, str, dict[str, str]]] = {
        "region_name": ("Region", "Such as eu-north-1.", {}),
        "endpoint_url": ("Endpoint", "The address of a server that is not Amazon's.", {}),
        "profile_name": ("Profile", "A profile in the worker's AWS configuration.", {}),
        "aws_session_token": ("Session token", "For temporary keys.", {"format": "password"}),
    }
    return {
        "connection-type": "statemaint",
        "hook-class-name": f"{_MODULES}.hooks.StatemaintHook",
        "hook-name": "Streaming state in S3 (statemaint)",
        "conn-fields": {
            name: {"label": label, "description": text, "schema": {**schema, **more}}
            for name, (label, text, more) in fields.items()
        },
        "ui-field-behaviour": {
            "hidden-fields": ["host", "schema", "port"],
            "relabeling": {"login": "Access key", "password": "Secret key"},
            "placeholders": {"login": "empty: boto3 finds the credentials"},
        },
    }


def _config() -> dict[str, Any]:
    usual = {"version_added": "0.1.0", "type": "string", "default": ""}
    return {
        "description": "Streaming state, maintained by statemaint.",
        "options": {
            "dashboard_url": {
                "description": (
                    "The address of the dashboard, for a link on each task; `{query}` is replaced "
                    "by the name of the query."
                ),
                "example": "https://grafana.example.com/d/statemaint?var-query={query}",
                **usual,
            },
            "alertmanager_url": {
                "description": (
                    "The address of Alertmanager, for a link to a silence of a query's alerts."
                ),
                "example": "https://alertmanager.example.com",
                **usual,
            },
        },
    }
