"""`outrider advise`: which drafter, how long, with which flags, and what it brings."""
