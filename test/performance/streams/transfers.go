package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
)

// kind is a kind of stream. carry transfers so many bytes, and returns how many arrived.
type kind struct {
	name  string
	carry func(ctx context.Context, w *way, size int64) (int64, error)
}

func kinds() []kind {
	return []kind{
		{"exec, output (`kubectl cp` from a pod)", execOutput},
		{"exec, input (`kubectl cp` to a pod)", execInput},
		{"attach, input and output", attach},
		{"port-forward, from a pod", forwardedFrom},
		{"port-forward, to a pod", forwardedTo},
		{"logs", logs},
	}
}

func execOutput(ctx context.Context, w *way, size int64) (int64, error) {
	out := &counter{}
	err := w.exec(ctx, []string{program, "bytes", fmt.Sprint(size)}, remotecommand.StreamOptions{Stdout: out})
	return out.bytes, err
}

func execInput(ctx context.Context, w *way, size int64) (int64, error) {
	in, sum := &counter{}, &counter{}
	err := w.exec(ctx, []string{program, "sum"}, remotecommand.StreamOptions{
		Stdin: io.TeeReader(io.LimitReader(zeros{}, size), in), Stdout: sum,
	})
	if err == nil && sum.bytes == 0 {
		err = errors.New("the command did not get its input")
	}
	return in.bytes, err
}

func (w *way) exec(ctx context.Context, command []string, streams remotecommand.StreamOptions) error {
	executor, err := w.executor("exec", &corev1.PodExecOptions{
		Container: server, Command: command, Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil,
	})
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}

// attach sends to the container that repeats its input until all has come back.
func attach(ctx context.Context, w *way, size int64) (int64, error) {
	executor, err := w.executor("attach", &corev1.PodAttachOptions{Container: repeater, Stdin: true, Stdout: true})
	if err != nil {
		return 0, err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	// The container's input does not end with this stream. So the caller leaves when all has come back.
	rest, closeRest := io.Pipe()
	defer func() { _ = closeRest.Close() }()
	out := &counter{enough: size, then: leave}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{
		Stdin: io.MultiReader(io.LimitReader(zeros{}, size), rest), Stdout: out,
	})
	if out.bytes == size {
		err = nil
	}
	return out.bytes, err
}

func (w *way) executor(subresource string, options runtime.Object) (remotecommand.Executor, error) {
	request := w.set.CoreV1().RESTClient().Get().
		Namespace(namespace).Resource("pods").Name(w.pod).SubResource(subresource).
		VersionedParams(options, scheme.ParameterCodec)
	return remotecommand.NewWebSocketExecutor(w.config, http.MethodGet, request.URL().String())
}

func forwardedFrom(ctx context.Context, w *way, size int64) (got int64, err error) {
	err = w.forward(ctx, func(address string) error {
		answer, err := ask(ctx, http.MethodGet, fmt.Sprintf("%s/bytes?n=%d", address, size), nil)
		if err != nil {
			return err
		}
		got, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	})
	return got, err
}

func forwardedTo(ctx context.Context, w *way, size int64) (int64, error) {
	in := &counter{}
	err := w.forward(ctx, func(address string) error {
		answer, err := ask(ctx, http.MethodPost, address+"/sum", io.TeeReader(io.LimitReader(zeros{}, size), in))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	})
	return in.bytes, err
}

// forward forwards a local port to the server while do runs.
func (w *way) forward(ctx context.Context, do func(address string) error) error {
	path := w.set.CoreV1().RESTClient().Get().
		Namespace(namespace).Resource("pods").Name(w.pod).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(path, w.config)
	if err != nil {
		return err
	}
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ports := []string{fmt.Sprintf("0:%d", serverPort)}
	forwarder, err := portforward.New(dialer, ports, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		return err
	case <-ctx.Done():
		close(stop)
		return ctx.Err()
	}
	forwarded, err := forwarder.GetPorts()
	if err == nil {
		err = do(fmt.Sprintf("http://127.0.0.1:%d", forwarded[0].Local))
	}
	close(stop)
	return errors.Join(err, <-done)
}

func ask(ctx context.Context, method, address string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.Join(errors.New(answer.Status), answer.Body.Close())
	}
	return answer, err
}

// logs reads the log again and again, until the size is reached.
func logs(ctx context.Context, w *way, size int64) (int64, error) {
	var got int64
	for got < size {
		limit := min(logSize, size-got)
		log, err := w.pods().GetLogs(w.pod, &corev1.PodLogOptions{Container: printer, LimitBytes: &limit}).Stream(ctx)
		if err != nil {
			return got, err
		}
		n, err := io.Copy(io.Discard, log)
		if err := errors.Join(err, log.Close()); err != nil {
			return got, err
		}
		if n == 0 {
			return got, errors.New("the log is empty")
		}
		got += n
	}
	return got, nil
}

// zeros has no end.
type zeros struct{}

// Read reads zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// counter counts what is written, and calls then when it is enough.
type counter struct {
	bytes, enough int64
	then          func()
}

// Write counts the bytes.
func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	if c.then != nil && c.bytes >= c.enough {
		c.then()
	}
	return len(p), nil
}
