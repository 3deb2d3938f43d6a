"""The Reporting API: HTTP in front of the services, as its contract openapi.yaml says. No rule of metering is here."""
