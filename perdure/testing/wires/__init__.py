"""The wire formats that the scripted model speaks: how a request is read and a response is
written.
"""
