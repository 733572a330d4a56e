"""`outrider view`: all runs of a folder in the browser, from a server on this machine."""

import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from rich.console import Console

from outrider.base.bounds import check
from outrider.base.errors import refusing, require
from outrider.base.expectations import Within
from outrider.base.terminal import is_quiet
from outrider.cli.usage import argument_parser
from outrider.extras.view.page.listing import run_folders

FOLDERS = ("outputs", "multirun")
"""Where Hydra puts runs: the folders to show by default."""

HOST = "127.0.0.1"

PATIENCE = 5
"""The seconds that browsers have to read what was begun, once the server is told to end."""


def view(arguments: Sequence[str]) -> None:
    """Serves the pages until it is interrupted; prints the address, with its token."""
    parser = argument_parser(
        "view",
        description="Shows runs of `outrider compare` in the browser, finished or still running.",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="folders with runs (default: outputs and multirun)",
    )
    parser.add_argument("--port", type=int, default=0, help="the port (default: a free one)")
    parser.add_argument(
        "--play",
        metavar="TARGET",
        help="load a target, such as smollm2, for a page that writes texts with any drafter",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="SETTING=VALUE",
        help="let that page use a file or a model, as in drafter.path=outputs/medusa",
    )
    options = parser.parse_args(arguments)
    folders = options.folders or [path for name in FOLDERS if (path := Path(name)).is_dir()]
    none = f"there is no {' or '.join(FOLDERS)} here"
    expected = f"a folder with runs ({none}), or --play smollm2 to write texts"
    require(len(folders) > 0 or options.play is not None, "view", "", expected)
    for folder in folders:
        require(folder.is_dir(), "view", str(folder), "a folder that exists")
    check({"--port": Annotated[int, Within("[0, 65535]")]}, {"--port": options.port})
    import uvicorn

    from outrider.extras.view.play import Player, parts_of
    from outrider.extras.view.server import app
    from outrider.plugins.parts import make

    token = secrets.token_urlsafe(24)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with refusing(f"--port={options.port}: expected a free port", OSError):
            listener.bind((HOST, options.port))
        player, console, count = None, Console(), len(run_folders(folders))
        if options.play is not None:
            made = partial(parts_of, allowed=options.allow)
            player = Player(options.play, make("target", options.play), made)
        if not is_quiet():
            line = f"{count} run{'s' if count != 1 else ''}; stop with Ctrl-C"
            console.print(line, highlight=False)
        address = f"http://{HOST}:{listener.getsockname()[1]}/?token={token}"
        console.print(address, soft_wrap=True, markup=False, highlight=False)
        config = uvicorn.Config(
            app(folders, token, player),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=PATIENCE,
        )
        server = uvicorn.Server(config)
        if player is not None:
            player.is_over = lambda: server.should_exit
        with suppress(KeyboardInterrupt):  # Ctrl-C ends it
            server.run(sockets=[listener])
