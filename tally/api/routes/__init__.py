"""One file per group of routes: each reads a request, calls a service, and writes its answer."""
