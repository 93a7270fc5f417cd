"""Tests of what surrounds the code: packaging, containers, imports, the processes' ends, generated docs."""
