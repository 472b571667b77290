"""Settings: typed classes (`settings`), reading and errors (`load`), the grid (`study`), identity.

The only place of defaults. Nothing here imports torch, so that checking a file is quick.
"""
