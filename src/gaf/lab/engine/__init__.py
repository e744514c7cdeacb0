"""The training engine: a config and a folder in, a finished run in the folder out.

Import from its modules: ``config`` and ``folder`` (``Result``) are light, ``run`` (``train``) brings
Lightning Fabric.
"""
