"""Does it help? Data, models, tasks, a training engine and recipes; import what you need from its folders."""
