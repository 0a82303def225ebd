"""11.planner: whole planners that learners might write, right and wrong."""
