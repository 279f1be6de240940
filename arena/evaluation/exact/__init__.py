"""Small games solved exactly: their trees, equilibria, and what a policy can lose."""
