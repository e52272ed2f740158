package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

func TestOrdinaryAnswersPass(t *testing.T) {
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept"); strings.Contains(accept, "protobuf") {
			t.Errorf("it accepts %s", accept)
		}
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Error("no credentials")
		}
		sendJSON(w, `{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"`+strings.Repeat("a", 1<<20)+`"}}`)
	})
	if err := errors.Join(f.get(t), f.account.Violation()); err != nil {
		t.Error(err)
	}
}

func TestABombIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		call   func(context.Context, kubernetes.Interface) error
	}{
		"get": {http.StatusOK, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		}},
		"list": {http.StatusOK, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").List(ctx, metav1.ListOptions{})
			return err
		}},
		"create": {http.StatusCreated, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Create(ctx, &corev1.ConfigMap{}, metav1.CreateOptions{})
			return err
		}},
		"version": {http.StatusOK, func(_ context.Context, c kubernetes.Interface) error {
			_, err := c.Discovery().ServerVersion()
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := Default()
				limits.Object, limits.List = 64<<10, 128<<10
				f := newBubbleFixture(t, limits, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Encoding", "gzip")
					w.WriteHeader(test.status)
					unpacked(t, w)
				})
				err := test.call(t.Context(), f.client)
				bound := (*BoundError)(nil)
				if !errors.As(err, &bound) {
					t.Errorf("got %v", err)
				}
				if f.account.Violation() == nil {
					t.Error("the account does not know")
				}
			})
		})
	}
}

// unpacked writes a gzip bomb of 1 MiB, as long as the client reads.
func unpacked(t *testing.T, w io.Writer) {
	t.Helper()
	packer := gzip.NewWriter(w)
	_, _ = io.WriteString(packer, `{"a":"`)
	_, _ = packer.Write(bytes.Repeat([]byte("a"), 1<<20))
	_ = packer.Close()
}

func TestAmountsCannotEndTheProcess(t *testing.T) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"there","resourceVersion":"1"},` +
		`"spec":{"containers":[{"name":"12e4567","resources":{"limits":{"a":"10000000000000000001e2147483639"},` +
		`"requests":{"a":"1e-999999999","b":"1e1999999998","cpu":"100m"}}}]}}`
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") != "":
			sendJSON(w, `{"type":"ADDED","object":`+pod+`}`+"\n")
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/pods") && r.Method == http.MethodGet:
			sendJSON(w, `{"kind":"PodList","apiVersion":"v1","items":[`+pod+`]}`)
		default:
			sendJSON(w, pod)
		}
	})
	pods := f.client.CoreV1().Pods("n")
	for name, read := range map[string]func() (*corev1.Pod, error){
		"get": func() (*corev1.Pod, error) { return pods.Get(t.Context(), "there", metav1.GetOptions{}) },
		"create": func() (*corev1.Pod, error) {
			return pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
		},
		"list": func() (*corev1.Pod, error) {
			list, err := pods.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			return &list.Items[0], nil
		},
		"watch": func() (*corev1.Pod, error) {
			w, err := pods.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			defer w.Stop()
			event := <-w.ResultChan()
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				return nil, apierrors.FromObject(event.Object)
			}
			return pod, nil
		},
	} {
		found, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		container := found.Spec.Containers[0]
		if cpu := container.Resources.Requests.Cpu(); container.Name != "12e4567" || cpu.String() != "100m" {
			t.Errorf("%s: got the name %s, and %s CPUs", name, container.Name, cpu)
		}
	}
	if err := f.account.Violation(); err != nil {
		t.Errorf("an amount that API servers store is a violation: %v", err)
	}
}

func TestErrorsAreCutAndKeepTheirCode(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFixture(t, Default(), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(code)
				unpacked(t, w)
			})
			status := apierrors.APIStatus(nil)
			err := f.get(t)
			if !errors.As(err, &status) || int(status.Status().Code) != code || len(err.Error()) > 1<<17 {
				t.Errorf("%d: an error of %d bytes", code, len(fmt.Sprint(err)))
			}
			if err := f.account.Violation(); err != nil {
				t.Errorf("%d: an error is a violation: %v", code, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		status, length int
		media, want    string
	}{
		"JSON":                       {200, 2, "application/json; charset=utf-8", ""},
		"a web page":                 {200, 2, "text/html", "content type"},
		"no type":                    {299, 2, "", "content type"},
		"nothing":                    {200, 0, "", ""},
		"no content":                 {204, -1, "", ""},
		"the first redirect":         {300, 2, "application/json", "redirect"},
		"the last redirect":          {399, 2, "application/json", "redirect"},
		"the first error":            {400, 2, "text/html", ""},
		"an error":                   {503, -1, "", ""},
		"a status below all others":  {101, 2, "application/json", "status 101"},
		"the last unexpected status": {199, 2, "application/json", "status 199"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := &http.Response{
				StatusCode: test.status, ContentLength: int64(test.length),
				Header: http.Header{"Content-Type": {test.media}},
			}
			err := refusal(answer)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestJSONIsAskedFor(t *testing.T) {
	const json, table = "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"
	for accept, want := range map[string]string{
		"": json, json: json, table: table, "application/vnd.kubernetes.protobuf": json,
		"application/vnd.kubernetes.protobuf," + table: json + "," + table, "application/cbor-seq": json,
	} {
		r := asksForJSON(&http.Request{Header: http.Header{"Accept": {accept}}})
		if got := r.Header.Get("Accept"); got != want {
			t.Errorf("%q becomes %q, want %q", accept, got, want)
		}
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	var followed atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(other.Close)
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	answer := (*AnswerError)(nil)
	if err := f.get(t); !errors.As(err, &answer) || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("got %v", err)
	}
	streams, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/log", nil)
	if _, err := streams.RoundTrip(r); !errors.As(err, &answer) { //nolint:bodyclose // There is none.
		t.Errorf("got %v", err)
	}
	if followed.Load() {
		t.Error("the other server was asked")
	}
}

func TestOtherContentTypesAreRefused(t *testing.T) {
	for _, contentType := range []string{"application/vnd.kubernetes.protobuf", "text/html", ""} {
		f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{contentType}
			_, _ = io.WriteString(w, "hello")
		})
		answer := (*AnswerError)(nil)
		if err := f.get(t); !errors.As(err, &answer) {
			t.Errorf("%q: got %v", contentType, err)
		}
	}
}

func TestPagesCountTogether(t *testing.T) {
	limits := Default()
	limits.Objects = func() int64 { return 5 }
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"more"},"items":[{},{}]}`)
	})
	list := func(next string) error {
		_, err := f.client.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: next})
		return err
	}
	for range 3 { // Each list begins anew.
		if err := errors.Join(list(""), list("more")); err != nil {
			t.Fatal(err)
		}
	}
	if err := list("more"); err == nil || !strings.Contains(err.Error(), "5 objects") {
		t.Errorf("got %v", err)
	}
}

func TestStringsInPlaceOfObjectsAreRefused(t *testing.T) {
	limits := Default()
	limits.Elements = 1_000
	texts := `"` + strings.Repeat(`","`, 2_000) + `"`
	pod := `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[`
	var answer string
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, answer)
	})
	get := func() error {
		_, err := f.client.CoreV1().Pods("a").Get(t.Context(), "b", metav1.GetOptions{})
		return err
	}
	answer = pod + `{"args":[` + texts + `]}]}}`
	if err := get(); err != nil {
		t.Errorf("arguments that an API server stores: %v", err)
	}
	answer = pod + texts + `]}}`
	if bound := (*BoundError)(nil); !errors.As(get(), &bound) {
		t.Error("they are decoded")
	}
}
