"""How Ray is started or joined."""

import os
import sys
from types import SimpleNamespace

import pytest

from outrider.extras.ray.connection import connected, private_settings


@pytest.mark.parametrize("address", [None, "auto"])
def test_a_local_ray_is_closed_to_others(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in private_settings():
        monkeypatch.setenv(name, "")
    seen: dict[str, str] = {}
    ray = SimpleNamespace(init=lambda **_: seen.update(os.environ))
    monkeypatch.setitem(sys.modules, "ray", ray)
    connected(address, None)
    token = seen["RAY_AUTH_TOKEN"]
    if address is None:
        # Then Ray takes the loopback address for its node.
        assert seen["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
        assert seen["RAY_AUTH_MODE"] == "token" and len(token) == 64
        assert private_settings()["RAY_AUTH_TOKEN"] != token
    else:  # the cluster has settings of its own
        assert token == ""
