"""What many runs say: recipes, grids, comparison, tables, tuning; import what you need from its modules."""
