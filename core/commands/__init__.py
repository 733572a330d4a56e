"""The commands: each module is one subcommand of `outrider`, and holds a function of the same name.

A command takes the config that Hydra composed from `conf/COMMAND.yaml`, builds the parts that it
names, calls the library, and prints or saves the result. `report` and `plugins` take no config.
Start with `generate`, the simplest; `cli.py` shows how a command is called and how its errors are
reported.

May import everything but `cli`. Nothing imports a command: what others could use belongs in the
folder of its subject.
"""
