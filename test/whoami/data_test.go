package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

func TestPatternsHaveTheirSize(t *testing.T) {
	for _, size := range []int64{0, 1, period * 128, period*128 + 7} {
		p, out, _ := newProcess()
		if err := p.run(t.Context(), []string{"bytes", fmt.Sprint(size)}); err != nil || int64(out.Len()) != size {
			t.Errorf("%d bytes, want %d: %v", out.Len(), size, err)
		}
		for i, b := range out.Bytes() {
			if int(b) != i%period {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
	}
}

func TestLinesAreNumberedAndTheirPrinterWaits(t *testing.T) {
	p, out, term := newProcess()
	term <- syscall.SIGTERM
	if err := p.run(t.Context(), []string{"lines", "250"}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Fields(out.String()); out.Len() != 200 || len(lines) != 2 || lines[1] != "1" {
		t.Errorf("printed %q", out)
	}
}

func TestTheServerSendsAndReceivesMuch(t *testing.T) {
	p, _, _ := newProcess()
	server := httptest.NewServer(p.handler())
	defer server.Close()
	ask := func(method, path string, body io.Reader) string {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var want bytes.Buffer
	if err := writePattern(&want, 1<<20); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x\n", sha256.Sum256(want.Bytes()))
	if got := ask(http.MethodGet, "/bytes?n=1048576", nil); got != want.String() {
		t.Errorf("%d bytes differ", len(got))
	}
	if got := ask(http.MethodPost, "/sum", &want); got != sum {
		t.Errorf("sum %q, want %q", got, sum)
	}
	if got := ask(http.MethodGet, "/bytes?n=many", nil); got != "n is no number of bytes\n" {
		t.Errorf("got %q", got)
	}
}
