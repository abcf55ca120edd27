# gawk: an interpreter loop, associative arrays, recursion, regular expressions. See zoo.h for what a round is.
function tree(depth) {
    return depth < 0 ? "" : "(" tree(depth - 1) ")" tree(depth - 1)
}

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }

function is_right(    i, k, sum, text, nodes) {
    delete value
    text = tree(12)
    nodes = gsub(/\(/, "", text)
    for (i = 0; i < 50; i++)
        for (k = 0; k < 20; k++) value[i, k] = i * k
    for (i in value) sum += value[i]
    return nodes + fib(20) + sum == 247706
}

function goes_on(    line, found) {
    found = (getline line < "keep") >= 0
    close("keep")
    return found
}

BEGIN {
    if (!is_right()) exit 1
    print "ready"
    fflush()
    while (goes_on()) {
        rounds++
        wrong += !is_right()
    }
    print "rounds " rounds " wrong " wrong + 0
}
