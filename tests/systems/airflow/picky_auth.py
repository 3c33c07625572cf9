"""An auth manager as a company has: some users may read some DAGs only."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

PICKY_USER = "paula"
HER_DAG = "statemaint__good"


class PickyAuthManager(SimpleAuthManager):
    """The simple auth manager, except that Paula may read one DAG and no other."""

    def is_authorized_dag(self, *, method: Any, user: Any, **rest: Any) -> bool:
        """Tells whether a user may do something with a DAG."""
        details = rest.get("details")
        if user.username == PICKY_USER and (details is None or details.id != HER_DAG):
            return False
        allowed: bool = super().is_authorized_dag(method=method, user=user, **rest)
        return allowed
