// Go with cgo: goroutines on stacks that are moved, preemption by signals, a concurrent collector, calls to C, panics.
// See zoo.h for what a round is.
package main

/*
static int times(int i, int k) { return i * k; }
*/
import "C"

import (
	"fmt"
	"os"
	"time"
)

type tree struct{ left, right *tree }

func grow(depth int) *tree {
	if depth < 0 {
		return nil
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func (t *tree) nodes() int {
	if t == nil {
		return 0
	}
	return 1 + t.left.nodes() + t.right.nodes()
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// Each step is computed in C and arrives by a panic.
func step(i, k int) (value int) {
	defer func() { value = recover().(int) }()
	panic(int(C.times(C.int(i), C.int(k))))
}

// A nil pointer is found by the processor's fault.
func nilIsCaught() (caught bool) {
	defer func() { caught = recover() != nil }()
	var none *tree
	return none.left == nil
}

// Goes down some megabytes of stack, which has to grow for that.
func depth(n int) int {
	var room [64]byte
	if n == 0 {
		return int(room[n])
	}
	return 1 + depth(n-1)
}

func isRight() bool {
	results := make(chan int)
	for i := 0; i < 50; i++ {
		go func(i int) {
			sum := 0
			for k := 0; k < 20; k++ {
				sum += step(i, k)
			}
			results <- sum
		}(i)
	}
	deep := make(chan int)
	go func() { deep <- depth(5000) }()
	sum := grow(12).nodes() + fib(20)
	for i := 0; i < 50; i++ {
		sum += <-results
	}
	return sum == 247706 && <-deep == 5000 && nilIsCaught()
}

func main() {
	time.Sleep(time.Millisecond) // the first timer opens the runtime's descriptors
	if !isRight() {
		os.Exit(1)
	}
	fmt.Println("ready")
	rounds, wrong := 0, 0
	for {
		if _, err := os.Stat("keep"); err != nil {
			break
		}
		rounds++
		if !isRight() {
			wrong++
		}
	}
	fmt.Printf("rounds %d wrong %d\n", rounds, wrong)
}
