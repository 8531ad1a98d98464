"""Runs that are measured together, before another implementation has its turn."""

# Seconds at the beginning of a turn whose runs are not counted, and seconds from which a first run
# is; the same as on the other side.
WARM_UP = 0.05
LONG = 0.2


def take(run, seconds, runs):
    """The seconds of each run, until `seconds` have passed or `runs` were made."""
    first = run()
    taken = [] if first < LONG else [first]
    warm_up = first
    while warm_up < WARM_UP:
        warm_up += run()
    while not taken or (sum(taken) < seconds and len(taken) < runs):
        taken.append(run())
    return taken


def fastest(candidates):
    """The pair of a step and its name whose best of two runs is the shortest."""
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda pair: min(pair[0].run(), pair[0].run()))
