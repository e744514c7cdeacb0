"""Networks for images, of the paper and for a laptop; ``gaf.lab.tasks.models`` builds them by name."""
