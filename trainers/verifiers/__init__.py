"""Games as environments of verifiers 1, for its command line and its trainers."""
