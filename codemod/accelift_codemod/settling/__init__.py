"""What the planner settles when the rules have spoken: one plan where a statement stands for several."""
