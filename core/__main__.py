"""`python -m outrider`, for torchrun and wherever the console script is not on the path."""

from outrider.cli.main import main

if __name__ == "__main__":
    main()
