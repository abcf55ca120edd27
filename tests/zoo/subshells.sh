# bash: functions, arrays and arithmetic in the interpreter, and now and then a subshell, which is a fork.
# A round is that of zoo.h with a smaller tree: 63 nodes of depth 5, and fib(10) = 55, by 10 workers.
tree() {
    if (($1 < 0)); then return; fi
    ((nodes++))
    tree $(($1 - 1))
    tree $(($1 - 1))
}
fib() {
    if (($1 < 2)); then ((sum += $1)); return; fi
    fib $(($1 - 1))
    fib $(($1 - 2))
}
worker() {
    local k result=0
    for ((k = 0; k < 20; k++)); do ((result += $1 * k)); done
    echo $result
}
is_right() {
    local i values=() nodes=0 sum=0
    for ((i = 0; i < 10; i++)); do values+=("$(worker $i)"); done
    for i in "${values[@]}"; do ((sum += i)); done
    fib 10
    tree 5
    ((sum + nodes == 45 * 190 + 55 + 63))
}

is_right || exit 1
echo ready
rounds=0 wrong=0
while [[ -e keep ]]; do
    ((rounds++))
    is_right || ((wrong++))
done
echo "rounds $rounds wrong $wrong"
