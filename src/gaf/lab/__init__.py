"""Does it help? Everything that needs more than torch: the extra ``[lab]``."""
