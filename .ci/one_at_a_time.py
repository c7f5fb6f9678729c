"""Run a shell script while no other make in this folder runs one: python .ci/one_at_a_time.py SCRIPT

The lock is of a file that is always there, and ends with the program that holds it.
"""

import fcntl
import os
import sys

file = os.open("constraints.txt", os.O_RDONLY)
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.stderr.write("Another make is setting up .venv here; waiting until it has.\n")
    fcntl.flock(file, fcntl.LOCK_EX)
os.set_inheritable(file, True)
os.execvp("sh", ["sh", "-ec", sys.argv[1]])
