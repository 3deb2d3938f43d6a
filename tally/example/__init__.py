"""The example month, March 2026: what `make demo` closes and what the golden tests compare with.

It holds the worked examples of the requirement as events that collectors would have sent. Resources were created before
March and live beyond it, so that their records are clipped; counters grow by many increments, some of them outside the
month. Data only: what is right about it stands in tests/golden.

| Cloud | Project | What it shows |
|---|---|---|
| os-prod-eu1 | proj-456 | an instance that is resized; a volume that is extended, then retyped |
| hetzner-main | hetzner-proj-42 | a server that is upgraded |
| gardener-prod | team-alpha | a shoot that scales, hibernates and wakes |
| harbor-prod | harbor-team-alpha | a repository that grows, with pulls, pushes and traffic |
| os-prod-eu2 | proj-456 | an instance that is powered off for ten days: 128.45 EUR |
| os-prod-eu2 | proj-full-month | the same without power-off: 148.80 EUR and 3.65 EUR for traffic |
| os-prod-eu2 | proj-shelved-days | the same, shelved instead of powered off: those ten days cost nothing |
| os-prod-eu2 | proj-shelved-month | shelved all month: 0 EUR |
| gardener-eu2 | team-alpha | a shoot for 223.20 EUR, and through its relation the infrastructure below: 520.80 EUR |
| os-prod-eu3 | shoot-abc-os-tenant | the worker node of that shoot: 297.60 EUR, billed with team-alpha |
"""

from pathlib import Path

EVENTS = Path(__file__).with_name("2026-03.jsonl")    # Tally events as JSON lines, in the order of their instants
PROJECTS = Path(__file__).with_name("projects.yaml")  # projects, and relations between them
