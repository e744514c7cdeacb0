"""AT HOME ELSEWHERE: one module for each framework, imported by its users and by nobody else."""
