"""DFlash: a few layers on several states of the target fill a block of masks in one pass."""
