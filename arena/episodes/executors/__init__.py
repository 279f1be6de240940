"""Executors: where units of work run: in this process, in worker processes, or on Ray.

A unit of work is a whole game, or the measurement of one: a pure function of its arguments, so it
may be repeated after its worker was lost. Only the driver, the process that holds the executor,
stores results and calls models; a worker keeps no state.
"""
