"""AT HOME ELSEWHERE: one module for each framework, imported only by its users."""
