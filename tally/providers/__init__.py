"""One room per platform: its resource types, and what turns its notifications, lists and audits into Tally events.

No provider knows another, and none knows the store: what they hand on are events.
"""
