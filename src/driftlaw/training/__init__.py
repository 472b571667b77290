"""The loop that joins schedule, engine, grading and learner: the only room that sees all of them."""
