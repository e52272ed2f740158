package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	readTimeout    = 10 * time.Second
	requestTimeout = 10 * time.Second
	finishTimeout  = 10 * time.Second
	longestWork    = time.Second // of a request
)

// serve serves until it receives SIGTERM.
func (p process) serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	address := flags.String("address", ":8080", "address to listen at")
	drain := flags.Duration("drain", 0, "time to go on after SIGTERM")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing the flags of serve: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("serve takes no arguments: %w", errUsage)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: readTimeout, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC
	p.log("%s serves on %s", p.name(), listener.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-p.term:
		p.log("received SIGTERM")
	}
	<-time.After(*drain)
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finishing requests: %w", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	p.log("bye")
	return nil
}

func (p process) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /bytes", serveBytes)
	mux.HandleFunc("POST /sum", serveSum)
	mux.HandleFunc("GET /work", p.work)
	mux.HandleFunc("/grpc.health.v1.Health/Check", serveHealth)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.log("%s %s from %s", r.Method, r.URL.Path, r.RemoteAddr)
		fmt.Fprintln(w, p.name())
	})
	return mux
}

// work computes for as long as the query's "for" says, and answers with the pod's name.
func (p process) work(w http.ResponseWriter, r *http.Request) {
	duration, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || duration < 0 || duration > longestWork {
		http.Error(w, "for is no duration of up to "+longestWork.String(), http.StatusBadRequest)
		return
	}
	for begun := time.Now(); time.Since(begun) < duration; {
		sha256.Sum256(make([]byte, 1<<10))
	}
	fmt.Fprintln(w, p.name())
}

// serveHealth answers a health check of gRPC with SERVING: a frame with the field 1 of the answer, which is 1.
func serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write([]byte{0, 0, 0, 0, 2, 8, 1})
	w.Header().Set("Grpc-Status", "0")
}

// name returns the pod's name.
func (p process) name() string {
	if name := p.getenv("POD_NAME"); name != "" {
		return name
	}
	return p.getenv("HOSTNAME")
}

func (p process) log(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}
