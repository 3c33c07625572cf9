"""The hook: the verbs on a checkpoint, by its address and an Airflow connection."""

from typing import Any

from airflow.sdk import BaseHook

from statemaint.airflow.connections import OWN_TYPE, open_checkpoint, tried
from statemaint.airflow.health import Health, health_of
from statemaint.audit import Verification, verify
from statemaint.errors import ConfigError, StatemaintError
from statemaint.queries.checks import absolute_address
from statemaint.storage import Storage


class StatemaintHook(BaseHook):
    """Reads a query's checkpoint, through the settings of an Airflow connection.

    Args:
        checkpoint: the query's checkpointLocation; Airflow makes the hook of a connection without
            one, `connection.get_hook(hook_params={"checkpoint": ...})` with it.
        connection: the connection for S3, of type `aws` or `statemaint`; without one all settings
            come from the environment, as on the command line.
        kwargs: arguments of Airflow's hook.
    """

    conn_name_attr = "connection"
    default_conn_name = "statemaint_default"
    conn_type = OWN_TYPE
    hook_name = "Streaming state in S3 (statemaint)"

    def __init__(
        self, checkpoint: str | None = None, connection: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint, self.connection = checkpoint, connection

    def get_conn(self) -> Storage:
        """Returns the checkpoint's storage.

        Raises:
            ValueError: when the address contains a secret, or is relative.
            ConfigError: when the connection does not exist or contains an unsupported setting, or
                the hook has no checkpoint.
            UnsupportedError: for a scheme that this version cannot reach.
        """
        if self.checkpoint is None:
            raise ConfigError(
                'the hook has no checkpoint: get_hook(hook_params={"checkpoint": ...})'
            )
        return open_checkpoint(absolute_address(self.checkpoint), self.connection)

    def health(self, *, deep: bool = False, spark_version: str | None = None) -> Health:
        """Returns whether the query would restart; see `health_of`."""
        return health_of(self.get_conn(), deep=deep, spark=spark_version)

    def verify(self, *, deep: bool = False, sample: tuple[int, int] | None = None) -> Verification:
        """Checks every file that a retained version needs; see `statemaint.verify`."""
        return verify(self.get_conn(), deep=deep, sample=sample)

    def test_connection(self) -> tuple[bool, str]:
        """Returns whether S3 accepts the connection, and its answer, for Airflow's form."""
        try:
            return True, tried(self.connection)
        except StatemaintError as error:
            return False, f"{error.code}: {error}"
