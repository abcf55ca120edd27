// Goroutines that compute, a server under its own load, panics that are recovered, and signals that are counted.
//
//	computer → cycle → heavy (3 parts of the work) or light (1 part)
//
// Prints "ready"; at the end of standard input "rounds N sum S" (counted.h) and what else it counted; exit code 42.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	lightIterations = 2_000_000
	tokenFactor     = 0x9e3779b97f4a7c15
	answerPatience  = 30 * time.Second
)

var isOver int32

type counts struct {
	rounds, sum                uint64
	served, refused, recovered int64
	sent, got, lost, foreign   int64
}

//go:noinline
func heavy(state uint64) uint64 {
	for i := 0; i < 3*lightIterations; i++ {
		state = state*6364136223846793005 + 1
	}
	return state
}

//go:noinline
func light(state uint64) uint64 {
	for i := 0; i < lightIterations; i++ {
		state = state*2862933555777941757 + 1
	}
	return state
}

//go:noinline
func cycle() uint64 {
	return heavy(7) ^ light(7)
}

func compute(books *counts, expected uint64, done *sync.WaitGroup) {
	defer done.Done()
	for atomic.LoadInt32(&isOver) == 0 {
		books.rounds++
		books.sum += books.rounds*tokenFactor + (cycle() ^ expected)
	}
}

// Reads through nil, which the runtime turns from a signal into a panic.
//
//go:noinline
func faultOnce(nothing *counts, books *counts) {
	defer func() {
		if recover() != nil {
			atomic.AddInt64(&books.recovered, 1)
		}
	}()
	books.rounds += nothing.rounds
	atomic.AddInt64(&books.lost, 1) // never reached
}

func fault(books *counts, done *sync.WaitGroup) {
	defer done.Done()
	for atomic.LoadInt32(&isOver) == 0 {
		faultOnce(nil, books)
		time.Sleep(time.Millisecond)
	}
}

func ask(books *counts, url string, done *sync.WaitGroup) {
	defer done.Done()
	for atomic.LoadInt32(&isOver) == 0 {
		answer, err := http.Get(url)
		if err != nil {
			atomic.AddInt64(&books.refused, 1)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(text) != "/shares" {
			atomic.AddInt64(&books.refused, 1)
			continue
		}
		atomic.AddInt64(&books.served, 1)
		time.Sleep(5 * time.Millisecond)
	}
}

// Sends itself one signal after the other, each when the one before has come; then waits whether more come.
func signals(books *counts, done *sync.WaitGroup) {
	defer done.Done()
	came := make(chan os.Signal, 64)
	kinds := []syscall.Signal{syscall.SIGWINCH, syscall.SIGUSR1}
	signal.Notify(came, syscall.SIGWINCH, syscall.SIGUSR1)
	for atomic.LoadInt32(&isOver) == 0 {
		kind := kinds[books.sent%2]
		books.sent++
		syscall.Kill(syscall.Getpid(), kind)
		select {
		case got := <-came:
			if got == kind {
				books.got++
			} else {
				books.foreign++
			}
		case <-time.After(answerPatience):
			books.lost++
		}
		time.Sleep(2 * time.Millisecond)
		books.foreign += int64(len(came))
		for len(came) > 0 {
			<-came
		}
	}
}

func serve(answer http.ResponseWriter, request *http.Request) {
	fmt.Fprint(answer, request.URL.Path)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(serve))
	var done sync.WaitGroup
	var computing [2]counts
	var others counts
	expected := cycle()
	done.Add(6)
	for i := range computing {
		go compute(&computing[i], expected, &done)
	}
	go fault(&others, &done)
	go signals(&others, &done)
	for i := 0; i < 2; i++ {
		go ask(&others, "http://"+listener.Addr().String()+"/shares", &done)
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	atomic.StoreInt32(&isOver, 1)
	done.Wait()
	for _, each := range computing {
		fmt.Println("rounds", each.rounds, "sum", each.sum)
	}
	fmt.Println("served", others.served, "refused", others.refused, "recovered", others.recovered)
	fmt.Println("sent", others.sent, "got", others.got, "lost", others.lost, "foreign", others.foreign)
	os.Exit(42)
}
