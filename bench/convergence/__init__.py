"""How modes converge: many short real runs, and the tables and the drawing of docs/convergence.md made of them."""
