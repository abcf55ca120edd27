// Goroutines that compute and are preempted by the runtime's signals. They take turns on one CPU.
package main

import (
	"fmt"
	"io"
	"os"
)

//go:noinline
func compute(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * i % 7
	}
	return sum
}

func main() {
	for i := 0; i < 4; i++ {
		go func() {
			for {
				compute(50_000_000)
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}
