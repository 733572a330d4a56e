"""The console script: `main` runs a command, `commands` holds one module for each."""
