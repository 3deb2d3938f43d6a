"""Pure values and rules: events, resource types, timelines, billing periods, the project graph, errors.

No input, no output, no framework, no clock: what a rule needs to know is an argument.
"""
