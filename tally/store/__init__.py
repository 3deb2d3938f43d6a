"""All hand-written SQL and the migrations of both databases. No rules: what a row means is decided in the domain."""
