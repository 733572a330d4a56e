"""What is registered, by whom, and how a name or a config becomes an object.

Drafters, acceptance rules, commands and all other parts are plugins, the built-in ones included.
`hookspecs` lists the hooks that a plugin implements; start there to write one. `registry` calls the
hooks and makes a part from its name, and `roles` says what the parts of each role have to be.
`options` turns each part's signature into a Hydra option, and `config` composes configs of them.

Parts are registered by their places, "module:name", and imported when they are first used: so the
modules of the built-in parts may lie above this folder, and a command imports what it uses.
"""
