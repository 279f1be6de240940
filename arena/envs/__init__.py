"""The games behind the interfaces of Gymnasium and PettingZoo."""
