"""Where learning ends and what it could reach, without its dynamics: limits of gradient descent on convex losses, Bayes optimum."""
