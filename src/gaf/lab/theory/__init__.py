"""IS IT TRUE: problems, conditioning, convergence, vanishing, saddles, and the list of statements."""
