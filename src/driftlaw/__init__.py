"""driftlaw: how far may a policy drift from its rollouts?"""

__version__ = "0.1.0"
