# Tcl: coroutines of an interpreter without C recursion, strings that are numbers, exceptions.
# See zoo.h for what a round is.
proc tree {depth} {
    if {$depth < 0} {return {}}
    list [tree [expr {$depth - 1}]] [tree [expr {$depth - 1}]]
}
proc nodes {tree} {
    if {$tree eq {}} {return 0}
    expr {1 + [nodes [lindex $tree 0]] + [nodes [lindex $tree 1]]}
}
proc fib {n} {
    if {$n < 2} {return $n}
    expr {[fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]}
}
proc worker {i} {
    for {set k 0} {$k < 20} {incr k} {
        try {throw STEP [expr {$i * $k}]} trap STEP value {yield $value}
    }
    return {}
}
proc workers {} {
    set alive {}
    set sum 0
    for {set i 0} {$i < 50} {incr i} {
        incr sum [coroutine worker$i worker $i]
        lappend alive worker$i
    }
    while {[llength $alive]} {
        set rest {}
        foreach name $alive {
            set value [$name]
            if {$value ne {}} {incr sum $value; lappend rest $name}
        }
        set alive $rest
    }
    return $sum
}
proc isRight {} {
    for {set i 0} {$i < 500} {incr i} {dict set words word$i $i}
    expr {[nodes [tree 12]] + [fib 20] + [workers] == 247706 && [dict get $words word499] == 499}
}
proc main {} {
    if {![isRight]} {exit 1}
    puts ready
    flush stdout
    set rounds 0
    set wrong 0
    while {[file exists keep]} {
        incr rounds
        if {![isRight]} {incr wrong}
    }
    puts "rounds $rounds wrong $wrong"
}
main
