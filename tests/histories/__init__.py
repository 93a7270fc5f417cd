"""Golden histories: what runs recorded, one for each feature; every later version must be able to
replay them.
"""
