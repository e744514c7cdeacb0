"""The training engine: a config and a folder in, a finished run in the folder out.

Import from its modules: ``config`` is light, ``run`` (``train``, ``Result``) brings Lightning Fabric.
"""
