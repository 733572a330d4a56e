"""What every folder may use: errors, folders on disk, the terminal, interruption."""
