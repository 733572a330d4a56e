"""Tables of runs as values, and how terminals, papers and spreadsheets show them."""
