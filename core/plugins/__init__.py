"""Plugins: what is registered, by whom, and how a name or a config becomes an object.

Drafters, acceptance rules, policies and targets are all plugins, the built-in ones included.
`hookspecs` lists the hooks that a plugin implements; start there to write one. `registry` calls the
hooks and makes a part from its name. `config` turns each part's signature into a Hydra option.
`ray_launcher` runs the jobs of a sweep on Ray.

May import `contract`, `prompts`, `theory` and `errors`; the modules of the built-in parts lie above
this folder, so the registry imports them by name when it is first used.
"""
