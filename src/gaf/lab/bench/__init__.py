"""What a step costs, next to torch's own and to the speed of memory, in one run."""
