"""Processor seconds of pandas to read the columns of a table that an evaluation needs."""

import sys
import time

import pandas

COLUMNS = ["probability", "reward", "policy_probability", "model_logged", "model_policy"]

seconds = []
for _ in range(3):
    begin = time.process_time()
    frame = pandas.read_csv(sys.argv[1], usecols=COLUMNS)
    seconds.append(time.process_time() - begin)
    del frame
print("seconds")
print(min(seconds))
