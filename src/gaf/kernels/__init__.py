"""HOW FAST: the same rules over lists of tensors, judged against :mod:`gaf.optim.rules`."""
