package manager

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// newBounded serves a handler that answers with the length of what it reads, over HTTP/1.1 or HTTP/2.
func newBounded(t *testing.T, within time.Duration, http2 bool) (boundedServer, *httptest.Server) {
	t.Helper()
	s := newBoundedServer(within, webhook.Options{})
	s.Register("/length", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, len(body), err)
	}))
	server := httptest.NewUnstartedServer(s.WebhookMux())
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	return s, server
}

// post sends a body with a length, which is unknown if it is negative.
func post(t *testing.T, server *httptest.Server, body io.Reader, length int64) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/length", body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = length
	answered, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answered.Body)
	_ = answered.Body.Close()
	return answered.StatusCode, string(text)
}

func TestWebhooksGetRequestsOfBoundedLengths(t *testing.T) {
	for name, test := range map[string]struct {
		length, says int64
		status       int
	}{
		"a small one":              {100, 100, http.StatusOK},
		"a large one":              {3*smallRequest + 1, 3*smallRequest + 1, http.StatusOK},
		"the largest one":          {largestRequest, largestRequest, http.StatusOK},
		"one that is too large":    {0, largestRequest + 1, http.StatusRequestEntityTooLarge},
		"one of unknown length":    {100, -1, http.StatusLengthRequired},
		"one that claims too much": {100, 200, http.StatusRequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			within := arriveWithin
			if test.status == http.StatusRequestTimeout {
				within = 100 * time.Millisecond
			}
			for _, http2 := range []bool{false, true} {
				s, server := newBounded(t, within, http2)
				body, sent := io.Pipe()
				go func() {
					_, _ = sent.Write(bytes.Repeat([]byte{'x'}, int(test.length)))
					if test.length == test.says || test.says < 0 {
						_ = sent.Close()
					}
				}()
				status, answer := post(t, server, body, test.says)
				if status != test.status || status == http.StatusOK && answer != fmt.Sprint(test.length, nil) {
					t.Errorf("status %d: %s", status, answer)
				}
				_ = body.Close()
				if !s.room.TryAcquire(roomForLarge) {
					t.Error("an answered request still has room")
				}
			}
		})
	}
}

func TestManyLargeRequestsDoNotKeepSmallOnesWaiting(t *testing.T) {
	for length, want := range map[int64]int{
		smallRequest + 1: http.StatusServiceUnavailable, smallRequest: http.StatusOK,
	} {
		within := arriveWithin
		if want != http.StatusOK {
			within = 2 * time.Second // Its first part must arrive by then.
		}
		s, server := newBounded(t, within, false)
		if !s.room.TryAcquire(roomForLarge) {
			t.Fatal("there is no room")
		}
		status, answer := post(t, server, bytes.NewReader(make([]byte, length)), length)
		if status != want {
			t.Errorf("without room, a request of %d bytes has the status %d: %s", length, status, answer)
		}
	}
}

// net/http reads the rest of a body before it answers.
func TestARequestThatIsRefusedDoesNotKeepItsConnection(t *testing.T) {
	for name, test := range map[string]struct{ path, length string }{
		"its length is unknown":  {"/length", "Transfer-Encoding: chunked"},
		"nobody serves its path": {"/other", "Content-Length: 100"},
	} {
		t.Run(name, func(t *testing.T) {
			_, server := newBounded(t, 100*time.Millisecond, false)
			connection, err := tls.Dial("tcp", server.Listener.Addr().String(),
				&tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = connection.Close() })
			_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", test.path, test.length)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, connection)
				ended <- err
			}()
			if err := waittest.Receive(t, "the end of the connection", ended); err != nil {
				t.Logf("the connection ends with %v", err)
			}
		})
	}
}
