"""Connects to Ray: to a cluster that runs, or to one of this machine for this run alone."""

import logging
import os
import secrets
from importlib import import_module
from typing import Any

from outrider.base.errors import ConfigError, message_of

OBJECT_STORE_BYTES = 100 * 2**20
"""Memory for the objects that Ray passes between processes: configs, questions and counts."""


def connected(address: str | None, cpus: int | None) -> Any:
    """Returns the module `ray`, connected.

    address: the running cluster to join, "auto" for the one on this machine; None starts Ray on
        this machine, closed to all others.
    cpus: how many cores it has, if it is started here; None for those of the machine.

    Raises:
        ConfigError: Ray is not installed, or there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports over the network
    if address is None:
        os.environ.update(private_settings())
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError(f"workers needs {error.name}: pip install 'outrider[ray]'") from error
    settings: dict[str, Any] = {"address": address}
    if address is None:
        settings = {
            "address": "local",
            "num_cpus": cpus,
            "object_store_memory": OBJECT_STORE_BYTES,
            "include_dashboard": False,
        }
    try:
        ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        line = message_of(error)
        raise ConfigError(
            f"cluster.address={address!r}: expected one that runs ({line})"
        ) from error
    return ray


def private_settings() -> dict[str, str]:
    """Returns the environment of a Ray that only this run can reach; read when Ray is imported.

    It listens on the loopback interface, which no other machine can reach, and requires a random
    token. Ray has tokens since version 2.52.
    """
    return {
        # Named after the systems where Ray takes the loopback address unless this is set.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
