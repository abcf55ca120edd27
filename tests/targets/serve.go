// An HTTP server that works a little for each answer. Says on which port; ends when its standard input does.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync/atomic"
)

func main() {
	var served int64
	text := strings.Repeat("some words in a row ", 50)
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		words := strings.Fields(text)
		sort.Strings(words)
		io.WriteString(answer, strings.Join(words, " "))
		atomic.AddInt64(&served, 1)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, nil)
	fmt.Printf("ready port=%d\n", listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
	fmt.Printf("served %d\n", atomic.LoadInt64(&served))
}
