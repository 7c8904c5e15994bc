"""Kill, freeze, cut off and mislead real processes, then audit what the engine promised.

``python -m gotasks_chaos --help`` runs a storm; ``invariants`` says what must hold after it.
"""
