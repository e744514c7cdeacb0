"""What we say: tables, figures and the page people look at."""
