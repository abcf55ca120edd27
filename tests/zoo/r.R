# R: closures, promises, conditions that unwind by longjmp, a collector in generations, the byte code compiler.
# See zoo.h for what a round is.
tree <- function(depth) if (depth < 0) NULL else list(tree(depth - 1), tree(depth - 1))
nodes <- function(tree) if (is.null(tree)) 0 else 1 + nodes(tree[[1]]) + nodes(tree[[2]])
fib <- function(n) if (n < 2) n else fib(n - 1) + fib(n - 2)

worker <- function(i) {
  sum <- 0
  for (k in 0:19) {
    step <- structure(class = c("step", "condition"), list(message = "", call = NULL, value = i * k))
    sum <- sum + withCallingHandlers(
      tryCatch(signalCondition(step), step = function(caught) caught$value)
    )
  }
  sum
}

is_right <- function() {
  total <- sum(vapply(0:49, worker, 0)) + nodes(tree(12)) + fib(20)
  words <- new.env()
  for (i in 1:500) assign(paste0("word", i), i, envir = words)
  matrix <- crossprod(matrix(1:400 / 400, 20))
  total == 247706 && get("word500", envir = words) == 500 && isSymmetric(matrix)
}

if (!is_right()) quit(status = 1)
cat("ready\n")
flush(stdout())
rounds <- 0
wrong <- 0
while (file.exists("keep")) {
  rounds <- rounds + 1
  if (!is_right()) wrong <- wrong + 1
}
cat(sprintf("rounds %d wrong %d\n", rounds, wrong))
