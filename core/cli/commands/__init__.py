"""Commands of the core: `compare`; the demo is `compare` with settings of its own. Those of the
extras are beside what they are about.

A command takes its settings, which Hydra composed from `conf/COMMAND.yaml`, builds the parts that
it names, calls the library, and prints or saves the result. Nothing imports a command: what others
could use belongs in the folder of its subject.
"""
