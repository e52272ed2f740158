package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// podsByName answers requests for pods: all exist but "missing". The namespace "bad" cannot be read.
func podsByName(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.Contains(r.URL.Path, "/namespaces/bad/"):
		w.WriteHeader(http.StatusBadRequest)
	case strings.HasSuffix(r.URL.Path, "/missing"):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case strings.HasSuffix(r.URL.Path, "/pods") && r.Method == http.MethodGet:
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
	default:
		fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"there"}}`)
	}
}

// missing asks by a configuration for a pod that is missing.
func missing(ctx context.Context, config *rest.Config) error {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Pods("n").Get(ctx, "missing", metav1.GetOptions{})
	return err
}

func TestAnswersThatSayWhatDoesNotExistAreConfirmed(t *testing.T) {
	f := newFixture(t, Default(), clock.RealClock{}, podsByName)
	refused := errors.New("another cluster")
	asked, right := 0, true
	f.confirmBy(t, func(ctx context.Context, config *rest.Config) error {
		if right {
			return nil
		}
		asked++
		if err := missing(ctx, config); !apierrors.IsNotFound(err) {
			t.Errorf("what is asked in order to confirm is confirmed itself: %v", err)
		}
		return refused
	})
	pods := f.client.CoreV1().Pods("n")
	if _, err := pods.Get(t.Context(), "there", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	right = false // The connection is there.
	for name, test := range map[string]struct {
		ask       func(ctx context.Context) error
		confirmed bool
	}{
		"a list": {func(ctx context.Context) error {
			_, err := pods.List(ctx, metav1.ListOptions{})
			return err
		}, true},
		"a watch": {func(ctx context.Context) error {
			_, err := pods.Watch(ctx, metav1.ListOptions{})
			return err
		}, true},
		"nothing was found": {func(ctx context.Context) error {
			_, err := pods.Get(ctx, "missing", metav1.GetOptions{})
			return err
		}, true},
		"a list that is refused": {func(ctx context.Context) error {
			_, err := f.client.CoreV1().Pods("bad").List(ctx, metav1.ListOptions{})
			return err
		}, false},
		"an object": {func(ctx context.Context) error {
			_, err := pods.Get(ctx, "there", metav1.GetOptions{})
			return err
		}, false},
		"nothing to delete": {func(ctx context.Context) error {
			return pods.Delete(ctx, "missing", metav1.DeleteOptions{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			err := test.ask(t.Context())
			if errors.Is(err, refused) != test.confirmed || (asked == 1) != test.confirmed {
				t.Errorf("asked %d times, error %v", asked, err)
			}
		})
	}
}

func TestAConnectionIsUsedOnlyOnceItHasProvedWhereItLeads(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Proto+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		podsByName(w, r)
	})
	refused := errors.New("another cluster")
	right := false
	f.confirmBy(t, func(ctx context.Context, config *rest.Config) error {
		if err := missing(ctx, config); !apierrors.IsNotFound(err) {
			t.Errorf("asking where the connection leads: %v", err)
		}
		if right {
			return nil
		}
		return refused
	})
	create := func() error {
		_, err := f.client.CoreV1().Pods("n").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
		return err
	}
	if err := create(); !errors.Is(err, refused) {
		t.Errorf("error %v, want %v", err, refused)
	}
	right = true
	for range 2 {
		if err := create(); err != nil {
			t.Error(err)
		}
	}
	const ask, made = "GET HTTP/1.1 Bearer token", "POST HTTP/2.0 Bearer token"
	if diff := cmp.Diff([]string{ask, ask, made, made}, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
