"""`compare`, of which the demo is one with settings of its own; other commands are extras.

A command takes its settings, which Hydra composed from `conf/COMMAND.yaml`, builds the parts that
it names, calls the library, and prints or saves the result. Nothing imports a command: what others
could use belongs in the folder of its subject.
"""
