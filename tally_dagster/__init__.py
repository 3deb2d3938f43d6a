"""The code location: definitions, jobs and the launcher. What a job does belongs in assets/ and tally.services."""
