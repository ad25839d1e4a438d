"""What is trained and how: recipes, evidence views, health rules, estimates, curves."""
