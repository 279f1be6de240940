"""Measuring players: schedules, intervals, ratings, results on disk, and what is told of them.

- `design` says who plays whom on which deal; `running` plays it, on all cores or with models;
- `measuring` turns a finished game into numbers; `results` keeps them in one SQLite file
  (`schema` has its tables, `database` its care);
- `intervals`, `sequential`, `control` and `ratings` turn the numbers into estimates that say how
  sure they are; `findings` and `summary` put them together, `tables` and `verdict` tell them.
"""
